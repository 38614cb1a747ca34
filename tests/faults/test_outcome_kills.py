"""Tests that a worker killed around a verdict neither loses nor repeats a verdict or return."""

from __future__ import annotations

from pathlib import Path

from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.sessions import get_or_create_session
from tests.faults.conftest import eventually

E = SessionEvent.Type
POINTS = ["before_grading", "after_grading", "after_return"]
GOAL = {"statement": "Greet.", "criteria": ['It says "good morning"'], "max_returns": 1}


def test_a_worker_killed_around_a_verdict_judges_each_answer_once(workers, supervisor, demo_agent):
    workers.start(WORKERS="1", LEASE_SECONDS="30", HEARTBEAT_SECONDS="5", DEMO_DELAY_SECONDS="0")
    for point in POINTS:
        session, _ = get_or_create_session(agent=demo_agent, outcome=GOAL)
        workers.kill_at(point)
        message = NewEvent(type=E.USER_MESSAGE, payload={"text": "say hello"})
        run_id = run_queue.accept(session.pk, message).run_id
        eventually(Run.objects.filter(pk=run_id, status="completed").exists)
        assert workers.was_killed, f"no worker reached {point}"
        check(session, point)


def check(session: Session, point: str) -> None:
    events = list(session.events.order_by("seq"))
    assert [e.seq for e in events] == [*range(1, len(events) + 1)], point
    said = [e.payload["text"] for e in events if e.type == E.AGENT_MESSAGE]
    assert said == ["hello", "good morning"], point
    verdicts = [e.payload for e in events if e.type == E.OUTCOME_JUDGED]
    assert [(v["status"], v["returns"]) for v in verdicts] == [("not_met", 1), ("met", 1)], point
    assert [e.type for e in events].count(E.STATUS_IDLE) == 1, point


def test_the_kill_points_are_the_crash_points_of_outcomes():
    code = "".join(p.read_text() for p in Path("sessions_app/outcomes").glob("*.py"))
    assert {p for p in POINTS if f'crash_point("{p}")' in code} == set(POINTS)
    assert code.count('crash_point("') == len(POINTS)
