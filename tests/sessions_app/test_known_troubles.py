"""Regression tests for problems reported about other systems that no other test covers."""

from __future__ import annotations

import pytest

from agents.exceptions import ProviderRejected
from orchestrator.engine.recovery import recover as recover_workflows
from orchestrator.triggers import fire_due_triggers
from sessions_app.lanes import run_queue
from sessions_app.lanes.recovery import recover_lanes
from sessions_app.models import Run, Session
from sessions_app.schedules.schedules import fire_due_schedules
from sessions_app.sessions import get_or_create_session
from sessions_app.subagents.spawns import deliver_pending
from tenants.models import ModelCall
from tests.sessions_app.conftest import OWNER, newest, serve
from tests.sessions_app.lanes.test_run_queue import send
from tests.sessions_app.stage import WORDS, say
from tools_app.registry import registry

pytestmark = pytest.mark.django_db

#: Argument names that would let a model choose for whom a tool acts.
OWNER_ARGUMENTS = {
    "user",
    "user_id",
    "owner",
    "owner_id",
    "workspace",
    "workspace_id",
    "tenant",
    "tenant_id",
}


def test_the_deadline_of_a_run_is_measured_from_its_start_not_from_its_queueing(session):
    """See openclaw PR #114058."""
    send(session)
    Run.objects.update(created_at="2020-01-01T00:00:00Z")
    Session.objects.update(active_at="2020-01-01T00:00:00Z", lease_expires="2020-01-01T00:00:00Z")
    claim = run_queue.claim(session.pk, OWNER)

    seen = recover_lanes()

    assert (seen.reaped, seen.overdue) == ([], [])
    assert run_queue.heartbeat(OWNER, [session.pk]) == {session.pk: claim.epoch}


@pytest.mark.usefixtures("stage_tools")
def test_a_session_with_rejected_requests_does_not_hold_up_others_with_the_same_credential(
    session, agent, owner, principal, script
):
    """See openclaw #15037."""
    other, _ = get_or_create_session(agent=agent, created_by_id=owner.pk, session_key="other")
    provider = script(*[[ProviderRejected("This conversation is broken.")]] * 3, WORDS)
    for _ in range(3):
        say(session, principal)
        serve(session.pk)

    say(other, principal)
    serve(other.pk)

    assert newest(session, "session.error").payload["code"] == "provider_rejected"
    run = Run.objects.get(session=other)
    assert (run.status, run.attempts) == ("completed", 1)
    assert len(provider.requests) == 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("stage_tools")
def test_an_idle_session_makes_no_model_calls(session, principal, script):
    """See openclaw #98556."""
    provider = script(WORDS)
    say(session, principal)
    serve(session.pk)
    Session.objects.update(active_at="2020-01-01T00:00:00Z")

    for _ in range(3):
        for work in (
            recover_lanes,
            recover_workflows,
            deliver_pending,
            fire_due_schedules,
            fire_due_triggers,
        ):
            work()
        serve(session.pk)

    assert len(provider.requests) == ModelCall.objects.count() == 1
    assert Run.objects.count() == 1


def test_no_tool_lets_a_model_choose_for_whom_it_acts():
    """See mem0 #4359."""
    named = {
        tool.name: OWNER_ARGUMENTS & set(tool.spec.json_schema.get("properties", {}))
        for tool in registry.values()
    }

    assert named
    assert {name: words for name, words in named.items() if words} == {}
