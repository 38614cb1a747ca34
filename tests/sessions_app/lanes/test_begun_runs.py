"""Tests of started runs: they keep their lane, leave no call open, and can be cancelled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from core.exceptions import Conflict
from sessions_app.exceptions import SessionEnded
from sessions_app.lanes import recovery, run_queue
from sessions_app.ledger import retry
from sessions_app.log.sql import rows
from sessions_app.models import Run, Session, ToolExecution
from sessions_app.sessions import archive, cancel_run, retry_run
from tests.sessions_app.approvals.test_approval_races import at_once
from tests.sessions_app.conftest import OWNER, newest, serve, types
from tests.sessions_app.lanes.test_run_queue import answer, message, send
from tests.sessions_app.stage import WORDS, E, call, say

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("stage_tools")]


def open_call(session: Session, run_id: UUID | None, name: str, **fields: Any) -> ToolExecution:
    """Create a call that has started and not ended."""
    return ToolExecution.objects.create(
        workspace_id=session.workspace_id,
        session=session,
        run_id=run_id,
        tool_use_id=f"tu_{name}",
        name=name,
        input={"text": "x"},
        started_at=timezone.now(),
        **{"state": "running", **fields},
    )


def give_up(session: Session) -> Run:
    """Lose the run that holds the lane for the last time."""
    Run.objects.update(losses=100)
    Session.objects.update(lease_expires="2020-01-01T00:00Z")
    assert run_queue.reap() == [session.pk]
    return Run.objects.get(status=Run.Status.DEAD)


@pytest.mark.parametrize("priority", [0, 5])
def test_a_message_waits_behind_a_run_whose_retry_is_not_due(session, priority):
    first = send(session, "one").run_id
    run_queue.release(run_queue.claim(session.pk, OWNER), reason="crashed", delay=60, lost=True)
    send(session, "two", priority=priority)

    assert run_queue.claim(session.pk, OWNER) is None

    Run.objects.update(not_before=None)
    assert run_queue.claim(session.pk, OWNER).run_id == first


def test_a_dead_run_leaves_no_call_open_except_those_that_wait_for_an_answer(session):
    run_id = send(session).run_id
    run_queue.claim(session.pk, OWNER)
    open_call(session, run_id, "look", read_only=True)
    open_call(session, run_id, "act")
    open_call(session, run_id, "later", state="requested")
    open_call(session, run_id, "theirs", ownership="custom")
    open_call(session, run_id, "asked", state="awaiting_approval")

    give_up(session)

    states = dict(ToolExecution.objects.values_list("name", "state"))
    assert states == {
        "look": "error",
        "act": "unknown",
        "later": "cancelled",
        "theirs": "running",
        "asked": "awaiting_approval",
    }
    told = session.events.filter(type=E.AGENT_TOOL_RESULT).order_by("seq")
    assert [(e.payload["name"], e.payload["state"]) for e in told] == [
        ("look", "error"),
        ("act", "unknown"),
        ("later", "cancelled"),
    ]


def test_open_calls_of_a_dead_run_are_not_counted_for_the_next_run(session, principal, script):
    script([call("ask_first")], WORDS)
    open_call(session, say(session, principal).run_id, "look", read_only=True)
    run_queue.claim(session.pk, OWNER)
    give_up(session)

    say(session, principal, "and now?")
    serve(session.pk)

    run = Run.objects.latest("created_at")
    assert (run.stop_reason, run.usage["tool_calls"]) == ("requires_action", 1)


def test_an_overdue_run_that_ended_meanwhile_does_not_affect_the_next_run(session, monkeypatch):
    send(session)
    claim = run_queue.claim(session.pk, OWNER)
    send(session, "two")
    Run.objects.filter(status="running").update(deadline="2020-01-01T00:00Z")

    def slow(query: str, params: list[object]) -> list[tuple[object, ...]]:
        found = rows(query, params)
        if query == recovery.OVERDUE:
            run_queue.finish(claim, OWNER, events=[answer()])
        return found

    monkeypatch.setattr(recovery, "rows", slow)

    assert recovery.recover_lanes().overdue == []
    assert [r.status for r in Run.objects.order_by("created_at")] == ["completed", "running"]


def test_cancelling_a_run_that_just_ended_leaves_the_next_run_alone(session):
    run = Run.objects.get(pk=send(session).run_id)
    claim = run_queue.claim(session.pk, OWNER)
    run.refresh_from_db()
    send(session, "two")
    following = run_queue.finish(claim, OWNER, events=[answer()]).next

    with pytest.raises(Conflict, match="completed already"):
        cancel_run(run, None)

    assert Run.objects.get(pk=following.run_id).status == "running"


def failed_run(session: Session) -> Run:
    run = Run.objects.get(pk=send(session).run_id)
    run_queue.finish(run_queue.claim(session.pk, OWNER), None, outcome="failed", stop_reason="x")
    run.refresh_from_db()
    return run


def test_a_queued_retry_can_be_cancelled_while_another_run_works(session):
    failed = failed_run(session)
    working = send(session, "two").run_id
    run_queue.claim(session.pk, OWNER)
    retry_run(failed)

    cancel_run(failed, None)

    assert failed.session.events.filter(type=E.USER_INTERRUPT).count() == 0
    statuses = dict(Run.objects.values_list("pk", "status"))
    assert statuses == {failed.pk: "cancelled", working: "running"}


def test_a_retry_resets_the_start_time(session):
    failed = failed_run(session)
    retry_run(failed)
    failed.refresh_from_db()
    assert (failed.status, failed.started_at) == ("queued", None)

    assert run_queue.claim(session.pk, OWNER).run_id == failed.pk


def test_a_run_of_an_archived_session_cannot_be_retried(session, owner):
    failed = failed_run(session)
    archive(session, owner.pk)

    with pytest.raises(SessionEnded):
        retry_run(failed)

    failed.refresh_from_db()
    assert failed.status == "failed"


def test_a_stop_cancels_a_call_whose_retry_is_queued(session, principal, effects):
    run_id = send(session).run_id
    run_queue.finish(run_queue.claim(session.pk, OWNER), None)
    unknown = open_call(session, run_id, "act", state="unknown", finished_at=timezone.now())
    retry(unknown, principal)

    run_queue.stop(session.pk)
    serve(session.pk)

    unknown.refresh_from_db()
    assert (unknown.state, effects) == ("unknown", [])
    assert Run.objects.get(resumes=True).status == "cancelled"


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_archivings_are_recorded_once(session, owner):
    with ThreadPoolExecutor(2) as pool:
        at_once([lambda: archive(Session.objects.get(pk=session.pk), owner.pk)] * 2, pool)

    assert types(session) == ["user.interrupt"]


def test_a_message_steered_too_late_is_charged_to_the_key_that_sent_it(session):
    key_id = uuid4()
    send(session)
    claim = run_queue.claim(session.pk, OWNER)
    late = replace(message("also"), key_id=key_id)
    run_queue.accept(session.pk, late, on_busy="steer")

    run_queue.finish(claim, None, outcome="failed", stop_reason="retries_exhausted")

    assert Run.objects.get(status="queued").key_id == key_id
    assert newest(session, E.USER_MESSAGE).key_id == key_id
