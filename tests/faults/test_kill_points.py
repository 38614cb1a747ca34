"""Tests that a run whose worker is killed at any crash point loses and repeats nothing."""

from __future__ import annotations

from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.sessions import get_or_create_session
from tests.faults.conftest import eventually

E = SessionEvent.Type
#: Each crash point with the final state of the call and its permitted effects.
POINTS = {
    "after_claim": ("completed", ["once"]),
    "before_model_call": ("completed", ["once"]),
    "after_model_call": ("completed", ["once"]),
    "after_tool_use": ("completed", ["once"]),
    # Killed just before the tool's own thread started, which cannot be told from a later kill.
    "inside_tool": ("unknown", []),
    "really_inside_tool": ("unknown", ["once"]),
    "before_tool_result": ("unknown", ["once"]),
    "before_completion": ("completed", ["once"]),
}


def test_a_worker_killed_at_any_point_loses_nothing_and_repeats_nothing(
    workers, supervisor, demo_agent
):
    workers.start(WORKERS="1", LEASE_SECONDS="30", HEARTBEAT_SECONDS="5")
    for point, (state, effects) in POINTS.items():
        session, _ = get_or_create_session(agent=demo_agent)
        workers.kill_at(point)
        answer_once(session)
        assert workers.was_killed, f"no worker reached {point}"
        assert workers.effects == effects, point
        check_log(session, state, point)


def answer_once(session: Session) -> None:
    message = NewEvent(type=E.USER_MESSAGE, payload={"text": 'use record with {"text": "once"}'})
    run_id = run_queue.accept(session.pk, message).run_id
    eventually(lambda: Run.objects.get(pk=run_id).status == "completed")


def check_log(session: Session, state: str, point: str) -> None:
    events = list(session.events.order_by("seq"))
    assert [e.seq for e in events] == [*range(1, len(events) + 1)], point
    results = [e.payload["state"] for e in events if e.type == E.AGENT_TOOL_RESULT]
    assert results == [state], point
    ends = [e.payload["stop_reason"] for e in events if e.type == E.STATUS_IDLE]
    assert ends == ["end_turn"], point
    assert session.executions.get().state == state, point


def test_the_kill_points_are_the_crash_points_of_the_harness():
    from pathlib import Path

    code = "".join(p.read_text() for p in Path("sessions_app/harness").glob("*.py"))
    assert {p for p in POINTS if f'crash_point("{p}")' in code} == set(POINTS) - {
        "really_inside_tool"
    }
    assert code.count('crash_point("') == len(POINTS) - 1
