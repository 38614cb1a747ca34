"""Tests of the WebSocket of a draft: one frame per changed part, for viewers who may read."""

from __future__ import annotations

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async as in_thread
from channels.testing import WebsocketCommunicator

from agents import drafts
from agents.canvas.revisions import Author
from agents.drafts import discard
from config.asgi import application
from tenants.keys import issue_key
from tests.factories import agent as make_agent

SECONDS = 20


async def open_socket(agent, workspace, after=0):
    issued = await in_thread(issue_key)(workspace_id=workspace.pk, name="t", scope="read")
    headers = [(b"x-api-key", issued.secret.encode())]
    path = f"/ws/agents/{agent.pk}/draft/?after={after}"
    socket = WebsocketCommunicator(application, path, headers=headers)
    connected, _ = await socket.connect(SECONDS)
    assert connected
    return socket


async def next_frame(socket):
    return json.loads(await socket.receive_from(SECONDS))


@pytest.mark.asyncio
async def test_a_viewer_receives_changes_and_the_final_state(async_db, workspace):
    agent = await in_thread(make_agent)(workspace)
    change = in_thread(drafts.change)
    await change(agent, {"name": "One"}, author=Author())
    socket = await open_socket(agent, workspace)
    first = await next_frame(socket)
    assert (first["phase"], first["part"], first["seq"]) == ("change", "name", 1)
    assert (await next_frame(socket))["phase"] == "state"

    await change(agent, {"name": "Two", "temperature": 0.5}, author=Author())
    parts = [(await next_frame(socket))["part"] for _ in range(2)]
    assert parts == ["name", "temperature"]
    assert (await next_frame(socket))["revision"] == 2
    await in_thread(discard)(agent, author=Author())
    last = await next_frame(socket)
    assert (last["phase"], last["revision"]) == ("state", 3)
    await socket.disconnect(SECONDS)


@pytest.mark.asyncio
async def test_a_viewer_from_another_workspace_is_disconnected(
    async_db, workspace, foreign_workspace
):
    agent = await in_thread(make_agent)(workspace)
    socket = await open_socket(agent, foreign_workspace)
    async with asyncio.timeout(SECONDS):
        closed = await socket.receive_output(SECONDS)
    assert closed["code"] == 4404
    await socket.disconnect(SECONDS)
