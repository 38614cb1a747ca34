"""The runtime for Python callers: the same log, lanes and frames as behind HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from agents.providers.base import TextDelta
from config.faults import Forbidden, NotFound
from sessions_app import lanes, runtime
from sessions_app.frames import frame_of
from sessions_app.models import Run, Session
from tenants.access import principal_of_user
from tenants.ids import uuid7
from tests.conftest import add_member
from tests.sessions_app.conftest import OWNER, serve, types

WORDS = [TextDelta(text="Hello "), TextDelta(text="you.")]


@pytest.fixture
def threads(transactional_db) -> Callable[..., threading.Thread]:
    """Runs a function beside the test, and waits for it at the end."""
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


def test_a_session_is_found_again_by_its_key(agent, owner):
    made, is_new = runtime.get_or_create_session(agent.pk, "k", title="Trip", metadata={"a": 1})
    found, again = runtime.get_or_create_session(agent, "k")

    assert (is_new, again) == (True, False)
    assert found == made
    assert (made.title, made.metadata, made.created_by_id) == ("Trip", {"a": 1}, owner.pk)


@pytest.mark.parametrize("ref", ["Tester", "no-such-agent", "0190"])
def test_without_a_principal_an_agent_is_named_by_its_id(agent, ref):
    with pytest.raises(NotFound):
        runtime.get_or_create_session(ref, "k")
    with pytest.raises(NotFound):
        runtime.get_or_create_session(uuid7(), "k")


def test_with_a_principal_only_its_own_workspace_is_reached(
    agent, session, principal, stranger, foreign_workspace
):
    elsewhere = principal_of_user(stranger, foreign_workspace.pk)

    assert runtime.get_or_create_session("Tester", "k", principal=principal)[1]
    for reach in (
        lambda: runtime.get_or_create_session(agent, "k", principal=elsewhere),
        lambda: runtime.append_message(session, "hi", principal=elsewhere),
        lambda: runtime.get_history(session.pk, principal=elsewhere),
        lambda: runtime.wake(session, principal=elsewhere),
        lambda: runtime.wait_for_agent_run(uuid7(), principal=elsewhere),
    ):
        with pytest.raises(NotFound):
            reach()
    assert types(session) == []


def test_a_viewer_reads_but_does_not_send(session, workspace):
    viewer = principal_of_user(add_member(workspace, "viewer"), workspace.pk)

    assert runtime.get_history(session, principal=viewer) == []
    with pytest.raises(Forbidden):
        runtime.append_message(session, "hi", principal=viewer)


def test_history_is_the_last_messages_in_order(session, script):
    script(WORDS, WORDS)
    for text in ("one", "two"):
        runtime.append_message(session.pk, text)
        serve(session.pk)
    history = runtime.get_history(session, limit=3)

    assert [(said.role, said.text) for said in history] == [
        ("assistant", "Hello you."),
        ("user", "two"),
        ("assistant", "Hello you."),
    ]


def test_waking_names_the_run_that_is_next(session):
    assert runtime.wake(session.pk) is None
    run_id = runtime.append_message(session, "hi").run_id

    assert runtime.wake(session) == run_id
    with pytest.raises(NotFound):
        runtime.wake(uuid7())


def stored(session_id: object) -> list[dict[str, Any]]:
    events = Session.objects.get(pk=session_id).events.order_by("seq")
    return [frame_of(event) for event in events]


def without_processing(frame: dict[str, Any]) -> dict[str, Any]:
    """A frame may be older than the moment at which a run took its event."""
    if event := frame["metadata"].get("event"):
        event.pop("processed_at")
    return frame


def same(seen: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    kept = [frame for frame in seen if frame["seq"] is not None]
    return [*map(without_processing, kept)] == [*map(without_processing, expected)]


@pytest.mark.django_db(transaction=True)
def test_the_loop_runs_here_and_hands_out_the_frames_of_the_socket(agent, script):
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
def test_deltas_are_handed_out_while_the_model_speaks(agent, script):
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
def test_the_loop_serves_what_waits_before_it_and_leaves_what_comes_after(agent, script):
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
def test_the_loop_waits_for_whoever_holds_the_lane(agent, script, threads):
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


@pytest.mark.django_db(transaction=True)
def test_the_loop_keeps_its_lease_and_hears_a_stop(agent, script, settings, threads):
    settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS = 1.0, 0.1
    renewed = threading.Event()

    def watch() -> None:
        """Called in the middle of the answer: wait for a renewal, then stop the session."""
        session = Session.objects.get(session_key="k")
        first = session.lease_expires
        while session.lease_expires == first:
            session.refresh_from_db()
        renewed.set()
        connection.close()
        threads(lanes.stop, session.pk)
        stopped.wait(30)

    stopped = threading.Event()
    script([watch, TextDelta(text="never said")])
    monitor = threads(lambda: _when_cancelled(stopped))
    run = runtime.run_agent_loop(agent, "k", "Hi")
    monitor.join(30)

    assert renewed.is_set()
    assert (run.status, run.stop_reason) == ("cancelled", "interrupted")
    assert "agent.message" not in types(run.session)


def _when_cancelled(stopped: threading.Event) -> None:
    while not Run.objects.filter(status="cancelled").exists():
        stopped.wait(0.01)
    stopped.set()


@pytest.mark.django_db(transaction=True)
def test_a_loop_that_is_broken_off_hands_its_run_back_at_once(agent, script):
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


def test_a_run_that_nobody_takes_is_told_as_it_is(agent):
    enqueued = runtime.enqueue_agent_run(agent, "k", "Hi", priority=2)

    run = runtime.wait_for_agent_run(enqueued.run_id, 0)
    assert (run.status, run.priority) == ("queued", 2)
    lanes.claim(enqueued.session_id, OWNER)
    assert runtime.wait_for_agent_run(enqueued.run_id, 0).status == "running"
