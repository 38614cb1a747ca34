"""Tests that the output of running calls reaches viewers live and is not kept."""

from __future__ import annotations

import asyncio
import threading

import pytest
from pydantic import BaseModel

from agents.providers.base import TextDelta, ToolCall
from sessions_app.lanes import run_queue
from sessions_app.live import output_buffer
from sessions_app.live.output_buffer import CallOutput, OutputPublisher
from sessions_app.log.writer import NewEvent
from sessions_app.models import Session, SessionEvent, ToolExecution, ToolOutput
from tests.sessions_app.conftest import OWNER, serve
from tests.sessions_app.live.stream_client import connected, in_thread, joined
from tests.sessions_app.stage import say
from tools_app.registry import Category, registry, tool

RUNNING = ToolExecution.State.RUNNING


class NoArguments(BaseModel):
    pass


@pytest.fixture
def gate(stage_tools):
    """Replace a tool by one that emits a line and waits until the test lets it continue."""
    go_on = threading.Event()
    del registry["look"]  # The fixture stage_tools restores it.

    @tool(category=Category.TIME, name="look")
    def speak(arguments: NoArguments, context) -> str:
        """Emit a line, wait, return."""
        context.emit("one\n")
        assert go_on.wait(30)
        return "the end"

    return go_on


@pytest.fixture
def claim(session):
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "hi"})
    run_queue.accept(session.pk, message)
    return run_queue.claim(session.pk, OWNER)


@pytest.fixture
def execution(session, claim):
    return ToolExecution.objects.create(
        workspace_id=session.workspace_id,
        session=session,
        run_id=claim.run_id,
        tool_use_id="tu_1",
        name="exec",
        input={},
        state=RUNNING,
    )


@pytest.fixture
def publisher(monkeypatch):
    """Return a publisher that works only when the test flushes it."""
    monkeypatch.setattr(OutputPublisher, "_run", lambda self: None)
    return OutputPublisher()


@pytest.fixture
def sent(monkeypatch):
    found: list[object] = []
    monkeypatch.setattr(output_buffer, "publish_deltas", found.extend)
    return found


def test_output_is_published_in_batches_and_stored_once_a_second(publisher, sent, claim, execution):
    output = CallOutput(claim, execution)
    for number in range(50):
        publisher.write(output, f"{number}\n")
    publisher.flush()
    publisher.write(output, "more\n")
    publisher.flush()
    publisher.flush()

    assert [(piece.offset, piece.text[:4]) for piece in sent] == [(0, "0\n1\n"), (140, "more")]
    stored = ToolOutput.objects.get()
    assert (stored.start, stored.text.endswith("49\n")) == (0, True)
    output.stored_at -= output_buffer.STORE_SECONDS
    publisher.flush()
    assert ToolOutput.objects.get().text.endswith("more\n")
    publisher.close(output)
    assert not ToolOutput.objects.exists()


def test_a_stale_worker_sends_and_stores_nothing(publisher, sent, claim, execution, session):
    output = CallOutput(claim, execution)
    publisher.write(output, "ghost\n")
    Session.objects.filter(pk=session.pk).update(lane_epoch=claim.epoch + 1)
    publisher.flush()

    assert sent == []
    assert not ToolOutput.objects.exists()


def test_output_left_by_a_lost_worker_is_removed_with_the_next_output(
    publisher, sent, claim, execution, session
):
    ToolOutput.objects.create(
        tool_use_id="tu_0", session=session, run_id=claim.run_id, epoch=0, name="exec", start=0
    )
    publisher.write(CallOutput(claim, execution), "new\n")
    publisher.flush()
    assert list(ToolOutput.objects.values_list("pk", flat=True)) == ["tu_1"]


async def test_output_comes_while_the_tool_runs_and_the_result_replaces_it(
    async_db, session, principal, secret, script, gate
):
    script([ToolCall(call_id="c1", name="look", arguments={})], [TextDelta(text="Done.")])
    await in_thread(say)(session, principal)
    async with connected(session, secret) as socket:
        await joined(session)
        serving = asyncio.create_task(in_thread(serve, thread_sensitive=False)(session.pk))
        frame = await socket.until(lambda one: one.get("tool_state") == "running")
        assert frame == {
            "type": "tool",
            "tool_name": "look",
            "tool_state": "running",
            "tool_output": "one\n",
            "seq": None,
            "metadata": {
                "session_id": str(session.pk),
                "run_id": frame["metadata"]["run_id"],
                "tool_use_id": frame["metadata"]["tool_use_id"],
                "offset": 0,
            },
        }
        async with connected(session, secret) as late:
            again = await late.until(lambda one: one.get("tool_state") == "running")
            assert (again["tool_output"], again["metadata"]["offset"]) == ("one\n", 0)
        gate.set()
        done = await socket.until(lambda one: one.get("tool_state") == "completed")
        assert done["tool_output"] == "the end"
        await serving
    async with connected(session, secret) as after:
        await after.until_seq(done["seq"])
        assert all(one.get("tool_state") != "running" for one in after.follower.frames)
    assert not await ToolOutput.objects.aexists()
