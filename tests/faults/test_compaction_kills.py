"""Tests that a worker killed during a compaction loses nothing and saves nothing twice."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from memory.models import MemoryVersion
from sessions_app.context.compaction.cycle import request_compaction
from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent, import_events
from sessions_app.models import ContextSnapshot, Run, Session, SessionEvent
from sessions_app.sessions import get_or_create_session
from tests.faults.conftest import eventually

E = SessionEvent.Type
#: The crash points of a compaction.
POINTS = ["inside_flush", "after_flush", "after_summary", "before_snapshot"]


def past(count: int) -> list[dict[str, object]]:
    kinds = (E.USER_MESSAGE, E.AGENT_MESSAGE)
    words = "the file notes/plan.md is kept by Marta under ticket YARD-77 " * 4
    return [
        {"type": kinds[nth % 2], "payload": {"text": f"message {nth}: {words}"}}
        for nth in range(count)
    ]


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_worker_killed_in_a_compaction_loses_nothing_and_saves_nothing_twice(
    workers, supervisor, demo_agent, by_hand
):
    workers.start(WORKERS="1", LEASE_SECONDS="30", HEARTBEAT_SECONDS="5", DEMO_DELAY_SECONDS="0")
    for point in POINTS:
        session, _ = get_or_create_session(agent=demo_agent)
        import_events(session.pk, past(400), None)
        workers.kill_at(point)
        if by_hand:
            run_id = request_compaction(session, {}, None).pk
        else:
            message = NewEvent(type=E.USER_MESSAGE, payload={"text": "say hello"})
            run_id = run_queue.accept(session.pk, message).run_id
        eventually(Run.objects.filter(pk=run_id, status="completed").exists)
        assert workers.was_killed, f"no worker reached {point}"
        check(session, point)


def is_completed(run_id: UUID | None) -> bool:
    return Run.objects.get(pk=run_id).status == "completed"


def check(session: Session, point: str) -> None:
    session.refresh_from_db()
    snapshot = ContextSnapshot.objects.get(session=session)
    assert session.snapshot_seq == snapshot.last_seq, point
    assert session.flushed_seq == snapshot.last_seq, point
    events = list(session.events.order_by("seq"))
    assert [e.seq for e in events] == [*range(1, len(events) + 1)], point
    assert [e.type for e in events].count(E.CONTEXT_COMPACTED) == 1, point
    assert E.ERROR not in [e.type for e in events], point
    # One document for everything that was covered, wherever the process died.
    saved = MemoryVersion.objects.filter(session_id=session.pk)
    assert saved.count() == 1, point
    assert "YARD-77" in saved.get().content


def test_the_kill_points_are_the_crash_points_of_the_compaction():
    code = "".join(p.read_text() for p in Path("sessions_app/context/compaction").glob("*.py"))
    assert {p for p in POINTS if f'crash_point("{p}")' in code} == set(POINTS)
    assert code.count('crash_point("') == len(POINTS)
