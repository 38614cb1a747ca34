"""Tests of approval rows: created with their call, ended with it, immutable once answered."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, ProgrammingError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from sessions_app.accept import accept_event
from sessions_app.approvals.approvals import approval_for
from sessions_app.exceptions import NothingToAnswer
from sessions_app.lanes import recovery, run_queue
from sessions_app.models import Approval, Run, Session, ToolExecution
from sessions_app.sessions import archive, cancel_run
from tests.sessions_app.conftest import newest, serve, types
from tests.sessions_app.stage import WORDS, E, call, say
from tests.sessions_app.waiting_calls import allow, ask, command, deny, parked, pending

OVERDUE = timedelta(seconds=1)


def overdue(approval: Approval) -> None:
    Approval.objects.filter(pk=approval.pk).update(expires_at=timezone.now() - OVERDUE)


def test_an_approval_is_created_with_its_call_and_states_title_and_reason(
    session, principal, script
):
    asked = ask(session, principal, script, text="git  status")

    assert asked.title == "Run a command: git status"
    assert (asked.reason, asked.input) == ("default: exec asks first", {"command": "git  status"})
    assert asked.execution == ToolExecution.objects.get()
    assert (asked.session, asked.agent_id) == (session, session.agent_id)
    assert timedelta(days=6) < asked.expires_at - timezone.now() <= timedelta(days=7)


def test_many_approvals_cost_as_many_queries_as_one(session, principal, script):
    counts = []
    for number in (1, 1, 8):  # The first round fills the caches.
        script([command(f"echo {n}", str(n)) for n in range(number)], WORDS)
        accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})
        say(session, principal)
        with CaptureQueriesContext(connection) as seen:
            serve(session.pk)
        counts.append(len(seen))
        assert Approval.objects.pending().count() == number

    assert counts[1] == counts[2]


def test_a_resolved_approval_never_changes(session, principal, script):
    asked = ask(session, principal, script)
    deny(asked, principal)

    for change in ({"status": "allowed"}, {"note": "x"}, {"resolved_name": "me"}, {"title": "y"}):
        with pytest.raises(ProgrammingError, match="answered once"), transaction.atomic():
            Approval.objects.filter(pk=asked.pk).update(**change)


def test_an_approval_keeps_the_name_of_a_deleted_user(session, principal, script):
    asked = ask(session, principal, script)
    deny(asked, principal)

    Approval.objects.filter(pk=asked.pk).update(resolved_by=None)

    asked.refresh_from_db()
    assert (asked.resolved_by, asked.resolved_name) == (None, "owner@example.com")


@pytest.mark.parametrize("wrong", [{"status": "allowed"}, {"resolved_at": timezone.now()}])
def test_status_and_resolution_time_can_only_be_set_together(session, principal, script, wrong):
    asked = ask(session, principal, script)

    with pytest.raises(IntegrityError), transaction.atomic():
        Approval.objects.filter(pk=asked.pk).update(**wrong)


def stop(session: Session, principal) -> None:
    accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})


def cancel_resumed(session: Session, principal) -> None:
    resumed = Run(workspace_id=session.workspace_id, session=session, resumes=True)
    resumed.save()
    cancel_run(resumed, None)


@pytest.mark.parametrize(
    "end",
    [
        stop,
        cancel_resumed,
        lambda session, principal: archive(session, None),
        lambda session, principal: ToolExecution.objects.update(state="cancelled"),
    ],
)
def test_an_approval_is_cancelled_when_its_call_ends(session, principal, end):
    asked = parked(session, 3)

    end(session, principal)

    assert not Approval.objects.pending().exists()
    asked[0].refresh_from_db()
    assert asked[0].status == "cancelled"
    with pytest.raises(NothingToAnswer, match="cancelled"):
        allow(asked[0], principal)
    assert set(ToolExecution.objects.values_list("state", flat=True)) == {"cancelled"}


@pytest.mark.parametrize("end", [stop, lambda session, principal: archive(session, None)])
def test_stopping_or_archiving_cancels_an_approval_that_a_dead_run_left_behind(
    session, principal, end
):
    (asked,) = parked(session)
    Session.objects.filter(pk=session.pk).update(status="idle")

    end(session, principal)

    asked.refresh_from_db()
    assert (asked.status, ToolExecution.objects.get().state) == ("cancelled", "cancelled")
    assert newest(session, "agent.tool_result").payload["state"] == "cancelled"
    assert not Run.objects.filter(status="queued").exists()


def test_answering_an_approval_that_a_dead_run_left_behind_starts_a_run(session, principal, script):
    asked = ask(session, principal, script)
    Session.objects.filter(pk=session.pk).update(status="idle")

    resolved = allow(asked, principal)
    serve(session.pk)

    assert resolved.run_id
    assert ToolExecution.objects.get().state != "awaiting_approval"
    assert newest(session, "agent.message").payload["text"] == "All done."


def test_an_expired_approval_denies_the_call_and_the_session_continues(session, principal, script):
    asked = ask(session, principal, script)
    overdue(asked)

    seen = recovery.recover_lanes()
    serve(session.pk)

    asked.refresh_from_db()
    result = newest(session, "agent.tool_result").payload
    assert (seen.expired, asked.status) == ([asked.pk], "expired")
    assert (result["state"], result["error"][:37]) == (
        "denied",
        "The approval was not answered in time",
    )
    assert newest(session, "agent.message").payload["text"] == "All done."
    assert recovery.recover_lanes().expired == []


def test_an_expired_approval_cannot_be_answered(session, principal, script):
    asked = ask(session, principal, script)
    overdue(asked)

    with pytest.raises(NothingToAnswer, match="This approval expired at"):
        allow(asked, principal)


def test_when_one_approval_expires_the_session_names_the_remaining_ones(session):
    first, second = parked(session, 2)
    overdue(first)

    recovery.recover_lanes()

    idle = newest(session, "session.status_idle").payload
    assert idle["blocking"] == [second.execution.tool_use_id]
    assert not Run.objects.filter(status="queued").exists()


@pytest.mark.usefixtures("stage_tools")
def test_a_run_that_reaches_its_limit_leaves_no_pending_approval(session, principal, script):
    same = [call("look", "x", str(n)) for n in range(4)]
    script([*same, call("ask_first", "y", "a")])
    say(session, principal)

    serve(session.pk)

    asked = Approval.objects.get()
    session.refresh_from_db()
    assert (asked.status, session.status) == ("cancelled", "idle")
    assert types(session).count("agent.tool_use") == types(session).count("agent.tool_result")


def test_two_consecutive_answers_queue_one_run(session, principal):
    first, second = parked(session, 2)

    allow(first, principal)
    run = allow(second, principal).run_id

    assert list(Run.objects.filter(status="queued").values_list("pk", flat=True)) == [run]
    assert run_queue.claim(session.pk, run)


def test_a_call_has_at_most_one_pending_approval(session, principal):
    (asked,) = parked(session)

    assert pending() == asked
    again = approval_for(asked.execution, session.agent_id)
    with pytest.raises(IntegrityError), transaction.atomic():
        again.save()
