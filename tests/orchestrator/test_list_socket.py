"""Tests of the socket of the workflow list: it announces changes of the own workspace only."""

from __future__ import annotations

import asyncio

from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator

from config.asgi import application
from orchestrator import consumers
from orchestrator.engine.lifecycle import start_workflow, terminate
from orchestrator.engine.publisher import Publisher
from orchestrator.engine.runner import Runner
from sessions_app.lanes.signals import StopSignal
from tenants.keys import find_key, revoke_key
from tests.orchestrator.conftest import claim
from tests.sessions_app.live.stream_client import in_thread, key_for

SECONDS = 20
NEWS = {"type": "workflows"}


class Viewer(WebsocketCommunicator):
    def __init__(self, secret: str) -> None:
        super().__init__(application, "/ws/workflows/", headers=[(b"x-api-key", secret.encode())])

    async def frame(self) -> dict:
        return await self.receive_json_from(timeout=SECONDS)


def work() -> None:
    """Run one workflow and notify viewers as a worker does."""
    Runner(claim(), StopSignal(), Publisher().publish).run()


async def test_a_viewer_is_notified_of_changes_in_its_own_workspace_only(
    async_db, define, workspace, foreign_workspace
):
    define(lambda self, event, step: step.sleep("nap", 3_600), name="flow")
    mine = Viewer(await in_thread(key_for)(workspace))
    theirs = Viewer(await in_thread(key_for)(foreign_workspace))
    async with asyncio.timeout(SECONDS):
        for one in (mine, theirs):
            assert (await one.connect())[0]
            assert await one.frame() == NEWS
        made, _ = await in_thread(start_workflow)(workspace.pk, "flow", {})
        assert await mine.frame() == NEWS
        await in_thread(work)()
        assert await mine.frame() == NEWS
        await in_thread(terminate)(made)
        assert await mine.frame() == NEWS

    assert await theirs.receive_nothing()
    for one in (mine, theirs):
        await one.disconnect()
    await get_channel_layer().close()


async def test_changes_that_come_together_are_one_frame(async_db, define, workspace):
    define(lambda self, event, step: None, name="flow")
    viewer = Viewer(await in_thread(key_for)(workspace))
    async with asyncio.timeout(SECONDS):
        assert (await viewer.connect())[0]
        await viewer.frame()
        for _ in range(5):
            await in_thread(start_workflow)(workspace.pk, "flow", {})
        assert await viewer.frame() == NEWS

    assert await viewer.receive_nothing(timeout=2 * consumers.GATHER_SECONDS)
    await viewer.disconnect()
    await get_channel_layer().close()


async def test_a_viewer_that_loses_its_permission_is_disconnected(async_db, workspace, monkeypatch):
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", 0.05)
    secret = await in_thread(key_for)(workspace)
    viewer = Viewer(secret)
    async with asyncio.timeout(SECONDS):
        assert (await viewer.connect())[0]
        await viewer.frame()
        key = await in_thread(find_key)(secret)
        await in_thread(revoke_key)(workspace_id=key.workspace_id, key_id=key.pk)
        assert (await viewer.receive_output(timeout=SECONDS))["code"] == 4401
    await get_channel_layer().close()
