"""Tests of the runtime for Python callers: runs in this process, with the frames of the socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from agents.providers.base import TextDelta
from sessions_app import runtime
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import StopSignal
from sessions_app.live.frames import event_frame
from sessions_app.models import Run, Session
from tests.sessions_app.conftest import serve, types

WORDS = [TextDelta(text="Hello "), TextDelta(text="you.")]


@pytest.fixture
def threads(transactional_db) -> Iterator[Callable[..., threading.Thread]]:
    """Run functions on threads beside the test, and join them at the end."""
    started: list[threading.Thread] = []

    def start(work: Callable[..., object], *args: Any) -> threading.Thread:
        def run() -> None:
            try:
                work(*args)
            finally:
                connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        started.append(thread)
        return thread

    yield start
    for thread in started:
        thread.join(30)


def stored(session_id: UUID) -> list[dict[str, Any]]:
    events = Session.objects.get(pk=session_id).events.order_by("seq")
    return [event_frame(event) for event in events]


def without_processing(frame: dict[str, Any]) -> dict[str, Any]:
    """Remove the fields that change when a run takes the event, as a frame may be older."""
    if event := frame["metadata"].get("event"):
        del event["processed_at"], event["processed_run_id"]
    return frame


def same(seen: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    kept = [frame for frame in seen if frame["seq"] is not None]
    return [*map(without_processing, kept)] == [*map(without_processing, expected)]


@pytest.mark.django_db(transaction=True)
def test_the_loop_runs_in_this_process_and_yields_the_frames_of_the_socket(agent, script):
    script(WORDS)
    frames: list[dict[str, Any]] = []
    run = runtime.run_agent_loop(agent, "k", "Hi", on_event=frames.append)

    assert (run.status, run.result["text"]) == ("completed", "Hello you.")
    assert same(frames, stored(run.session_id))
    assert [f["type"] for f in frames if f["seq"]] == [
        "lifecycle",
        "lifecycle",
        "assistant",
        "lifecycle",
    ]


@pytest.mark.django_db(transaction=True)
def test_deltas_arrive_while_the_model_answers(agent, script):
    heard = threading.Event()
    seen: list[dict[str, Any]] = []

    def take(frame: dict[str, Any]) -> None:
        seen.append(frame)
        if frame["type"] == "assistant":
            heard.set()

    def wait() -> None:
        assert heard.wait(30), "the delta came only with the whole answer"

    script([TextDelta(text="Hello "), wait, TextDelta(text="you.")])
    run = runtime.run_agent_loop(agent, "k", "Hi", on_event=take)
    said = [frame for frame in seen if frame["type"] == "assistant"]

    assert (said[0]["seq"], said[0]["content"]) == (None, "Hello ")
    assert said[-1]["content"] == run.result["text"] == "Hello you."
    assert {frame["metadata"]["event_id"] for frame in said} == {run.result["event_id"]}


@pytest.mark.django_db(transaction=True)
def test_the_loop_serves_earlier_messages_and_leaves_later_ones(agent, script):
    session, _ = runtime.get_or_create_session(agent, "k")
    before = runtime.append_message(session, "before")

    def send_more() -> None:
        runtime.append_message(session, "after")

    script(WORDS, [send_more, TextDelta(text="Mine.")])
    run = runtime.run_agent_loop(agent, "k", "mine")

    assert run.result["text"] == "Mine."
    assert Run.objects.get(pk=before.run_id).status == "completed"
    assert list(Run.objects.values_list("status", flat=True).order_by("created_at")) == [
        "completed",
        "completed",
        "queued",
    ]
    script(WORDS)
    serve(session.pk)
    assert not Run.objects.filter(status="queued").exists()


@pytest.mark.django_db(transaction=True)
def test_the_loop_waits_for_the_holder_of_the_lane(agent, script, threads):
    session, _ = runtime.get_or_create_session(agent, "k")
    runtime.append_message(session, "first")
    held, mine_came = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert mine_came.wait(30)

    script([hold, TextDelta(text="First.")], [TextDelta(text="Second.")])
    threads(serve, session.pk)
    assert held.wait(30)
    done: list[Run] = []
    loop = threads(lambda: done.append(runtime.run_agent_loop(agent, "k", "second")))
    while not Run.objects.filter(status="queued").exists():
        loop.join(0.01)
    mine_came.set()
    loop.join(30)

    assert done[0].result["text"] == "Second."


def becomes_true(holds: Callable[[], object]) -> bool:
    """Return whether the condition becomes true within some seconds."""
    for _ in range(400):
        if holds():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.django_db(transaction=True)
def test_the_loop_keeps_its_lease(agent, script, settings):
    settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS = 1.0, 0.1

    def leases() -> list[Any]:
        return [Session.objects.get(session_key="k").lease_expires]

    def watch() -> None:
        first = leases()
        assert becomes_true(lambda: leases() != first)

    script([watch, *WORDS])

    assert runtime.run_agent_loop(agent, "k", "Hi").status == "completed"


@pytest.mark.django_db(transaction=True)
def test_a_stop_reaches_the_loop_at_once(agent, script, settings, monkeypatch):
    settings.HEARTBEAT_SECONDS = 1000.0  # So that no later heartbeat can report the stop.
    beat, given = threading.Event(), threading.Event()
    renew, give = run_queue.heartbeat, StopSignal.send

    def renew_and_tell(*args: Any) -> dict[UUID, int]:
        renewed = renew(*args)
        beat.set()
        return renewed

    def give_and_tell(sign: StopSignal, reason: str) -> None:
        give(sign, reason)
        given.set()

    def stop() -> None:
        assert beat.wait(30)
        run_queue.stop(Session.objects.get(session_key="k").pk)
        assert given.wait(30)

    monkeypatch.setattr(run_queue, "heartbeat", renew_and_tell)
    monkeypatch.setattr(StopSignal, "send", give_and_tell)
    script([stop, TextDelta(text="never said")])
    run = runtime.run_agent_loop(agent, "k", "Hi")

    assert (run.status, run.stop_reason) == ("cancelled", "interrupted")
    assert "agent.message" not in types(run.session)


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_loop_releases_its_run_at_once(agent, script):
    def break_off() -> None:
        raise KeyboardInterrupt

    script([break_off], WORDS)
    with pytest.raises(KeyboardInterrupt):
        runtime.run_agent_loop(agent, "k", "Hi")
    run = Run.objects.get()
    assert run.status == "queued"

    serve(run.session_id)
    run.refresh_from_db()
    assert run.status == "completed"


@pytest.mark.django_db(transaction=True)
def test_an_enqueued_run_is_answered_by_a_worker_and_followed_to_its_end(agent, script, threads):
    script(WORDS)
    frames: list[dict[str, Any]] = []
    ended = threading.Event()

    def take(frame: dict[str, Any]) -> None:
        frames.append(frame)
        if frame.get("phase") == "end":
            ended.set()

    enqueued = runtime.enqueue_agent_run(agent, "k", "Hi", on_event=take)
    assert runtime.wait_for_agent_run(enqueued.run_id, 0).status == "queued"
    threads(serve, enqueued.session_id)
    run = runtime.wait_for_agent_run(enqueued.run_id, 30)

    assert run.result["text"] == "Hello you."
    assert ended.wait(30)
    assert same(frames, stored(enqueued.session_id))
    for thread in threading.enumerate():
        if thread.name == f"follow {enqueued.run_id}":
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.django_db(transaction=True)
def test_a_callback_that_fails_does_not_harm_the_run(agent, script):
    script(WORDS)

    def fail(frame: dict[str, Any]) -> None:
        raise ValueError("a fault of the caller")

    assert runtime.run_agent_loop(agent, "k", "Hi", on_event=fail).status == "completed"
