"""Tests of the REST views and the WebSocket of a canvas."""

from __future__ import annotations

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async as in_thread
from channels.testing import WebsocketCommunicator

from agents.canvas import revisions
from agents.canvas.revisions import Author
from config.asgi import application
from tenants.keys import find_key, issue_key, revoke_key
from tests.agents.canvas.test_revisions import EDGES, NODES
from tests.conftest import key_client
from tests.factories import agent as make_agent

SECONDS = 20


@pytest.fixture
def agent(workspace):
    return make_agent(workspace)


def url(agent, path=""):
    return f"/api/v1/agents/{agent.pk}/canvas/{path}"


def put(api, agent, revision=0, nodes=NODES, edges=EDGES, **more):
    body = {"nodes": nodes, "edges": edges, "revision": revision, **more}
    return api.put(url(agent), body, format="json")


def test_a_canvas_can_be_read_saved_and_published_and_lists_its_revisions(api, agent):
    assert api.get(url(agent)).json()["revision"] == 0
    saved = put(api, agent)
    assert saved.status_code == 200
    body = saved.json()
    assert (body["revision"], body["published_revision"], body["problems"]) == (1, None, [])
    assert body["created_by"] == body["author"]["user_id"]
    assert body["created_by"]
    assert put(api, agent, 1, NODES[:2], EDGES[:1]).json()["problems"] == [
        {
            "code": "no_output",
            "level": "warning",
            "message": "The graph has no output. Its last result is the answer.",
            "node": None,
        }
    ]
    assert (
        api.post(url(agent, "publish/"), {"revision": 2}, format="json").json()[
            "published_revision"
        ]
        == 2
    )
    listed = api.get(url(agent, "revisions/")).json()["results"]
    assert [one["number"] for one in listed] == [2, 1]
    assert len(api.get(url(agent, "revisions/1/")).json()["nodes"]) == 3


def test_saving_over_a_newer_canvas_returns_the_newer_one(api, agent):
    put(api, agent)
    answer = put(api, agent, 0, NODES[:1], [])
    assert (answer.status_code, answer.json()["code"]) == (409, "canvas_conflict")
    assert answer.json()["current"]["revision"] == 1
    assert put(api, agent, 1, [], []).status_code == 409
    assert put(api, agent, 1, [], [], confirm_empty=True).json()["nodes"] == []


def test_a_canvas_that_cannot_run_is_not_published(api, agent):
    put(api, agent, 0, NODES, EDGES[:1])
    answer = api.post(url(agent, "publish/"), {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (422, "canvas_invalid")
    assert answer.json()["errors"][0]["field"] == "end"


def test_a_caller_without_build_permission_cannot_change_a_canvas(agent, workspace, foreign_api):
    runner = key_client(workspace, "run")
    assert runner.get(url(agent)).status_code == 200
    assert put(runner, agent).status_code == 403
    assert runner.post(url(agent, "publish/"), {}, format="json").status_code == 403
    assert put(foreign_api, agent).status_code == 404


@pytest.mark.parametrize(
    "body", [{"revision": "one"}, {"revision": True}, {}, [], {"revision": -1}]
)
def test_an_invalid_body_is_refused(api, agent, body):
    assert api.put(url(agent), body, format="json").status_code == 400


@pytest.mark.parametrize("revision", ["", "one", False, -1])
def test_an_invalid_revision_is_not_published(api, agent, revision):
    answer = api.post(url(agent, "publish/"), {"revision": revision}, format="json")

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "revision")


async def next_frame(socket):
    return json.loads(await socket.receive_from(timeout=SECONDS))


def open_socket(agent, secret, query=""):
    headers = [(b"x-api-key", secret.encode())]
    return WebsocketCommunicator(
        application, f"/ws/agents/{agent.pk}/canvas/{query}", headers=headers
    )


async def wait_for_close(socket):
    async with asyncio.timeout(SECONDS):
        while (message := await socket.receive_output(SECONDS))["type"] != "websocket.close":
            pass
    return message["code"]


@in_thread
def save(agent, revision, count):
    revisions.save(agent, nodes=NODES[:count], edges=[], revision=revision, author=Author())


@pytest.fixture
def secret(workspace, owner):
    return issue_key(workspace_id=workspace.pk, name="t", scope="read", created_by=owner).secret


async def test_a_socket_replays_revisions_and_sends_new_ones(async_db, agent, secret):
    await save(agent, 0, 1)
    await save(agent, 1, 2)
    socket = open_socket(agent, secret, "?after=1")
    assert (await socket.connect(SECONDS))[0]
    first, state = await next_frame(socket), await next_frame(socket)
    assert (first["seq"], first["phase"]) == (2, "revision")
    assert (state["phase"], state["revision"], state["published_revision"]) == ("state", 2, None)
    await save(agent, 2, 3)
    assert (await next_frame(socket))["revision"] == 3
    await in_thread(revisions.save)(agent, nodes=NODES, edges=EDGES, revision=3, author=Author())
    assert (await next_frame(socket))["revision"] == 4
    await in_thread(revisions.publish)(agent, tools=())
    assert (await next_frame(socket))["published_revision"] == 4
    await socket.disconnect()


def test_the_field_names_of_other_editors_are_accepted(api, agent):
    nodes = [
        {"id": "in", "type": "trigger", "label": "Begin", "data": {"on": "manual"}},
        {"id": "out", "type": "output"},
    ]
    saved = put(api, agent, nodes=nodes, edges=[{"id": "e1", "source": "in", "target": "out"}])

    assert saved.status_code == 200, saved.content
    first, (edge,) = saved.json()["nodes"][0], saved.json()["edges"]
    assert (first["name"], first["config"]) == ("Begin", {"on": "manual"})
    assert (edge["source"], edge["target"], "id" in edge) == ("in", "out", False)


async def test_strangers_and_anonymous_viewers_are_disconnected(
    async_db, agent, foreign_workspace, stranger
):
    theirs = await in_thread(issue_key)(
        workspace_id=foreign_workspace.pk, name="t", scope="read", created_by=stranger
    )
    for secret, code in ((theirs.secret, 4404), ("sy_wrong", 4401)):
        socket = open_socket(agent, secret)
        await socket.connect(SECONDS)
        assert await wait_for_close(socket) == code
        await socket.disconnect()


async def test_a_socket_closes_when_its_key_is_revoked(async_db, agent, secret):
    socket = open_socket(agent, secret)
    await socket.connect(SECONDS)
    assert (await next_frame(socket))["phase"] == "state"
    key = await in_thread(find_key)(secret)
    assert key
    await in_thread(revoke_key)(workspace_id=agent.workspace_id, key_id=key.pk)
    await save(agent, 0, 1)
    assert await wait_for_close(socket) == 4401
    await socket.disconnect()
