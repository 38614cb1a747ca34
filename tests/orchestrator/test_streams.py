"""Tests that viewers of a workflow get every stored event and then new ones."""

from __future__ import annotations

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator

from config.asgi import application
from orchestrator.consumers import frame_of
from orchestrator.engine.store import rows
from sessions_app.live.hub import hub
from tests.orchestrator.conftest import serve
from tests.sessions_app.live.stream_client import key_for


def watches(self, event, step):
    self.report_progress("half way", percent=50)
    self.broadcast_to_clients({"hello": "all"})
    self.log("a line")
    return step.wait_for_event("go", type="go")


@pytest.mark.django_db
def test_each_event_is_one_frame_of_the_public_contract(define, begin):
    define(watches)
    made = begin()
    serve()
    frames = [frame_of(event) for event in made.events.order_by("seq")]

    assert [frame["type"] for frame in frames] == [
        "status",
        "status",
        "progress",
        "output",
        "log",
        "step",
        "status",
    ]
    progress = frames[2]
    assert (progress["step"], progress["status"], progress["percent"]) == ("", "running", 50)
    assert progress["message"] == "half way"
    assert frames[3]["message"] == {"hello": "all"}
    assert progress["metadata"]["workflow_id"] == str(made.pk)


@pytest.mark.django_db
def test_the_agent_is_told_about_progress_and_a_failing_hook_is_harmless(define, begin):
    from orchestrator import WorkflowAgent

    heard = []

    class Hears(WorkflowAgent):
        def on_workflow_progress(self, name, workflow_id, progress):
            heard.append((name, workflow_id, progress["percent"]))
            self.broadcast({"heard": progress["percent"]})
            raise ValueError("the hook is broken")

    define(watches, agent_class=Hears)
    made = begin()
    serve()

    assert heard == [("test", made.pk, 50)]
    said = made.events.filter(payload__message={"heard": 50})
    assert said.count() == 1, "who watches hears what the agent says of it"


def socket(path: str, secret: str) -> WebsocketCommunicator:
    return WebsocketCommunicator(
        application, path, headers=[(b"x-api-key", secret.encode()), (b"host", b"testserver")]
    )


async def test_a_socket_replays_after_a_cursor_and_then_goes_live(
    async_db, define, begin, workspace
):
    define(watches)
    made = await sync_to_async(begin)()
    await sync_to_async(serve)()
    secret = await sync_to_async(key_for)(workspace)
    window = socket(f"/ws/workflows/{made.pk}/?after=4", secret)
    connected, _ = await window.connect(timeout=10)
    assert connected
    seen = [json.loads(await window.receive_from(timeout=10)) for _ in range(3)]
    assert [frame["seq"] for frame in seen] == [5, 6, 7]

    from orchestrator.engine.lifecycle import send_event

    await sync_to_async(send_event)(made, "go", 1)
    live = [json.loads(await window.receive_from(timeout=10)) for _ in range(3)]
    assert [frame["seq"] for frame in live] == [8, 9, 10]
    await window.send_to(text_data='{"type": "ping"}')
    assert json.loads(await window.receive_from(timeout=10)) == {"type": "pong"}
    await window.disconnect()
    await asyncio.sleep(0)


async def test_a_socket_is_found_by_the_id_that_the_client_gave(async_db, define, begin, workspace):
    define(watches)
    await sync_to_async(begin)(key="order-1")
    window = socket("/ws/workflows/order-1/", await sync_to_async(key_for)(workspace))
    await window.connect(timeout=10)

    assert json.loads(await window.receive_from(timeout=10))["seq"] == 1
    await window.disconnect()


async def test_polling_makes_up_for_a_lost_notification(async_db, define, begin, workspace):
    define(watches)
    made = await sync_to_async(begin)()
    secret = await sync_to_async(key_for)(workspace)
    window = socket(f"/ws/workflows/{made.pk}/", secret)
    await window.connect(timeout=10)
    assert json.loads(await window.receive_from(timeout=10))["seq"] == 1
    await sync_to_async(rows)("SELECT workflow_pause(%s)", [made.pk])  # Without a notification.
    await hub().poll()

    assert json.loads(await window.receive_from(timeout=10))["seq"] == 2
    await window.disconnect()


async def test_a_foreign_workflow_is_not_found(async_db, define, begin, foreign_workspace):
    define(watches)
    made = await sync_to_async(begin)()
    secret = await sync_to_async(key_for)(foreign_workspace)
    window = socket(f"/ws/workflows/{made.pk}/", secret)
    await window.connect(timeout=10)
    closed = await window.receive_output(timeout=10)

    assert closed["code"] == 4404
