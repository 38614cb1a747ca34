"""Tests that workflows of dead workers continue under one owner or visibly fail."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from uuid import uuid4

import pytest
from django.utils import timezone

from orchestrator.engine import store
from orchestrator.engine.definition import known_versions
from orchestrator.engine.lifecycle import start_workflow
from orchestrator.engine.recovery import delete_expired, recover
from orchestrator.engine.runner import Runner
from orchestrator.engine.store import rows
from orchestrator.models import StepAttempt, Workflow, WorkflowEvent
from orchestrator.supervisor import duties
from sessions_app.lanes.signals import StopSignal
from tests.orchestrator.conftest import attempts, claim, now, serve, serve_one, states

pytestmark = pytest.mark.django_db


def lose(held: store.WorkflowClaim) -> None:
    """Expire the lease of the holder, as if it had died."""
    rows(
        "UPDATE workflows SET lease_expires = clock_timestamp() - interval '1 s' "
        "WHERE id = %s RETURNING 1",
        [held.id],
    )


def overdue(held: store.WorkflowClaim) -> None:
    """Move the deadline of the running attempt into the past."""
    rows(
        "UPDATE workflows SET deadline = clock_timestamp() - interval '1 s' "
        "WHERE id = %s RETURNING 1",
        [held.id],
    )


def begun(held: store.WorkflowClaim, name: str = "a", attempt: int = 1, position: int = 0) -> None:
    """Start a step, as the holder did before it died."""
    body = {"id": uuid4(), "position": position, "name": name, "nth": 1, "kind": "do"}
    store.advance(held, begun={**body, "attempt": attempt, "timeout": 60})


def test_a_lost_workflow_is_queued_again_and_completed(define, begin):
    """See dbos #716."""
    done = []
    define(lambda self, event, step: step.do("a", lambda: done.append(step.attempt)))
    made = begin()
    held = claim()
    begun(held)
    lose(held)
    assert recover().reaped == [made.pk]
    serve()

    assert now(made).status == "complete"
    assert done == [2], "the attempt that was lost is counted"
    assert attempts(made) == [(1, "lost"), (2, "complete")]


@pytest.mark.django_db(transaction=True)
def test_a_stale_worker_runs_and_writes_nothing(define, begin):
    """See dbos #742."""
    done = []
    define(lambda self, event, step: step.do("a", lambda: done.append("body")))
    made = begin()
    old = claim()
    lose(old)
    recover()
    new = claim()
    before = now(made).last_seq
    Runner(old, StopSignal(), lambda _: None).run()  # It was only suspended, and comes back.

    assert done == []
    assert now(made).last_seq == before
    assert new.epoch > old.epoch
    serve_one(new)
    assert done == ["body"]


def test_a_renewed_lease_does_not_expire(define, begin):
    define(lambda self, event, step: 1)
    made = begin()
    held = claim()

    assert store.heartbeat(uuid4(), [made.pk]) == {}
    from tests.orchestrator.conftest import OWNER

    assert store.heartbeat(OWNER, [made.pk]) == {made.pk: held.epoch}
    assert recover().reaped == []


def test_recovery_is_a_duty_of_the_supervisor_and_not_a_job_of_the_queue():
    """See procrastinate #1408."""
    names = {getattr(duty.work, "__name__", "") for duty in duties()}

    assert {"_recover_workflows", "settle_lost", "fail_orphans"} <= names


def test_a_step_that_is_lost_more_often_than_its_retries_allow_fails(define, begin):
    done = []
    define(lambda self, event, step: step.do("a", lambda: done.append(1), retries=0))
    made = begin()
    held = claim()
    begun(held)
    lose(held)
    recover()
    serve()

    assert done == [], "at most once means at most once"
    assert now(made).error["code"] == "lost"
    assert states(made) == [("a", "errored", 1)]


def test_a_workflow_that_is_lost_too_often_without_progress_is_a_dead_letter(
    define, begin, settings
):
    settings.WORKFLOW_MAX_RECOVERIES = 3
    define(lambda self, event, step: 1)
    made = begin()
    for _ in range(3):
        lose(claim())
        recover()

    row = now(made)
    assert (row.status, row.is_dead, row.error["code"]) == ("errored", True, "dead_letter")
    assert not serve_one()


def test_progress_resets_the_number_of_losses(define, begin, settings):
    settings.WORKFLOW_MAX_RECOVERIES = 2
    define(lambda self, event, step: [step.do("a", lambda: 1), step.do("b", lambda: 2)])
    made = begin()
    held = claim()
    lose(held)
    recover()
    held = claim()
    begun(held)
    store.advance(held, ended={"position": 0, "attempt": 1, "status": "complete"}, outcome="1")
    lose(held)
    recover()
    serve()

    assert now(made).output == [1, 2]


def test_a_write_repeated_after_a_lost_response_changes_nothing(define, begin):
    define(lambda self, event, step: 1)
    made = begin()
    held = claim()
    begin_a = {"id": uuid4(), "position": 0, "name": "a", "nth": 1, "kind": "do", "attempt": 1}
    end_a = {"position": 0, "attempt": 1, "status": "complete"}
    begin_b = {"id": uuid4(), "position": 1, "name": "b", "nth": 1, "kind": "sleep", "seconds": 9}
    for _ in range(2):
        store.advance(held, begun=begin_a)
    for _ in range(2):
        state, _ = store.advance(held, ended=end_a, outcome='"x"', begun=begin_b)

    assert state == "gone"
    assert states(made) == [("a", "complete", 1), ("b", "waiting", 1)]
    seqs = list(made.events.order_by("seq").values_list("seq", flat=True))
    assert seqs == [*range(1, now(made).last_seq + 1)]
    assert WorkflowEvent.objects.filter(workflow=made, type="step").count() == 3


def test_a_workflow_released_at_shutdown_is_not_counted_as_lost(define, begin):
    define(lambda self, event, step: 7)
    made = begin()
    store.release(claim(), "shutdown")

    assert (now(made).status, now(made).recoveries) == ("queued", 0)
    serve()
    assert now(made).output == 7


# ── Fairness and limits ──────────────────────────────────────────────────────────────────────────


def test_claims_are_fair_between_workspaces(define, begin, foreign_workspace):
    define(lambda self, event, step: 1)
    for _ in range(3):
        begin()
    small, _ = start_workflow(foreign_workspace.pk, "test")
    first, second = claim(), claim()

    assert {first.workspace_id, second.workspace_id} == {first.workspace_id, foreign_workspace.pk}
    assert small.pk in {first.id, second.id}


def test_workspaces_take_turns_even_when_only_one_workflow_runs_at_a_time(
    define, begin, foreign_workspace
):
    define(lambda self, event, step: 1)
    for _ in range(3):
        begin()
        start_workflow(foreign_workspace.pk, "test")
    order = []
    for _ in range(6):
        held = claim()
        order.append(held.workspace_id)
        serve_one(held)

    assert all(one != other for one, other in pairwise(order))


def test_a_workspace_runs_a_limited_number_of_workflows_at_once(define, begin, settings):
    settings.WORKFLOWS_PER_WORKSPACE = 2
    define(lambda self, event, step: 1)
    for _ in range(3):
        begin()

    first = claim()
    assert claim()
    assert claim() is None
    serve_one(first)
    assert claim()


def test_a_workflow_with_a_limit_runs_a_limited_number_of_instances_at_once(define, begin):
    define(lambda self, event, step: 1, concurrency=1)
    define(lambda self, event, step: 1, name="other")
    begin()
    begin()
    begin(name="other")

    first = claim()
    assert claim().name == "other"
    assert claim() is None
    serve_one(first)
    assert claim().name == "test"


def test_workflows_with_the_same_concurrency_key_run_one_at_a_time(define, begin):
    define(lambda self, event, step: 1)
    begin(concurrency_key="customer-1")
    begin(concurrency_key="customer-1")
    begin(concurrency_key="customer-2")

    assert {claim().epoch, claim().epoch} == {1}
    assert claim() is None


def test_the_lower_of_two_limits_of_one_key_counts(define, begin):
    define(lambda self, event, step: 1)
    begin(concurrency_key="k", concurrency_limit=5)
    begin(concurrency_key="k", concurrency_limit=1)

    assert claim()
    assert not claim(), "one runs, and the other is to run alone"


def test_the_highest_priority_goes_first(define, begin):
    define(lambda self, event, step: 1)
    begin()
    urgent = begin(priority=5)

    assert store.claim_next(uuid4(), known_versions()).id == urgent.pk


# ── Retention ────────────────────────────────────────────────────────────────────────────────────


def test_workflows_that_ended_long_ago_are_deleted_with_everything_that_belongs_to_them(
    define, begin, settings
):
    settings.WORKFLOW_RETENTION_DAYS = 30
    define(lambda self, event, step: step.do("a", lambda: 1))
    old, new, open = begin(), begin(), begin()
    serve(2)
    Workflow.objects.filter(pk=old.pk).update(finished_at=timezone.now() - timedelta(days=31))

    assert delete_expired() == 1
    assert set(Workflow.objects.all()) == {new, open}
    assert not WorkflowEvent.objects.filter(workflow_id=old.pk).exists()
    assert not StepAttempt.objects.filter(step__workflow=old.pk).exists()
