"""Tests of sub-agents: bounded, narrowed, and their results are delivered exactly once."""

from __future__ import annotations

from decimal import Decimal

import pytest

from agents.definitions import change_agent, create_agent
from agents.providers.base import TextDelta, ToolCall, Truncated
from sessions_app.approvals.tool_calls import resume
from sessions_app.lanes import run_queue
from sessions_app.models import Run, Session, SubagentSpawn, ToolExecution
from sessions_app.sessions import archive
from sessions_app.subagents import spawns
from tenants.billing.credits import set_budget
from tenants.models import ModelCall, Purse
from tests.sessions_app.conftest import OWNER, newest, serve, types
from tests.sessions_app.spawning import agent, serve_all, words
from tests.sessions_app.stage import E, say

__all__ = ["agent"]

pytestmark = pytest.mark.django_db(transaction=True)


def spawn_call(id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(call_id=id, name="sessions_spawn", arguments={"task": "Count.", **arguments})


def child_of(session: Session) -> Session:
    return Session.objects.get(parent=session)


def test_a_waiting_parent_holds_no_worker_and_continues_with_the_result(session, principal, script):
    provider = script([spawn_call()], words("Seven."), words("It is seven."))
    say(session, principal)

    serve(session.pk)

    session.refresh_from_db()
    assert session.status == "requires_action"
    assert not Run.objects.filter(status="running").exists()
    child = child_of(session)
    serve(child.pk)

    assert SubagentSpawn.objects.get().delivered_at is not None
    serve(session.pk)
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "It is seven."
    seen = provider.requests[-1].messages[-1].results[0].output
    assert "Seven." in seen
    assert types(session).count(E.CHILD_CREATED) == types(session).count(E.CHILD_IDLE) == 1


def test_a_parent_that_does_not_wait_is_woken_by_the_result(session, principal, script):
    provider = script(
        [spawn_call(wait=False)], words("I go on."), words("Seven."), words("So it is seven.")
    )
    say(session, principal)
    serve(session.pk)
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "I go on."
    serve(child_of(session).pk)
    serve(session.pk)
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "So it is seven."
    assert "Seven." in provider.requests[-1].messages[-1].text


def test_a_result_is_delivered_once(session, principal, script):
    script([spawn_call()], words("Seven."), words("Done."))
    say(session, principal)
    serve(session.pk)
    serve(child_of(session).pk)
    spawn = SubagentSpawn.objects.get()
    assert not spawns.deliver(spawn.pk)
    assert spawns.deliver_pending() == 0
    assert types(session).count(E.CHILD_IDLE) == 1


def test_the_supervisor_delivers_a_result_that_a_killed_worker_left(
    session, principal, script, monkeypatch
):
    script([spawn_call()], words("Seven."), words("Done."))
    say(session, principal)
    serve(session.pk)
    monkeypatch.setattr("sessions_app.harness.loop.deliver_results_of", lambda child: None)
    serve(child_of(session).pk)
    assert SubagentSpawn.objects.get().status == "completed"
    assert SubagentSpawn.objects.get().delivered_at is None

    assert spawns.deliver_pending() == 1

    serve(session.pk)
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "Done."


def test_a_call_repeated_after_a_crash_finds_its_child(session, principal, script):
    script([spawn_call()], words("Seven."), words("Done."))
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    ToolExecution.objects.update(state="requested", parked=False)
    resume(session, None)

    serve(session.pk)
    assert child_of(session) == child
    serve(child.pk)
    serve(session.pk)
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "Done."


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        ({"max_depth": 0}, "deep"),
        ({"max_children": 0}, "are running"),
        ({"max_children_total": 0}, "This session has had all"),
    ],
)
def test_a_parent_at_its_limit_gets_an_error_and_continues(
    agent, session, principal, script, limits, complaint
):
    change_agent(agent, {"limits": limits})
    session.agent_version = agent.current
    agent.refresh_from_db()
    session.agent_version_id = agent.current_id
    session.save(update_fields=["agent_version"])
    script([spawn_call()], words("I did it myself."))
    say(session, principal)
    serve(session.pk)
    assert complaint in newest(session, E.AGENT_TOOL_RESULT).payload["error"]
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "I did it myself."
    assert not Session.objects.filter(parent=session).exists()


def test_the_top_session_limits_its_whole_tree(agent, session, principal, script):
    change_agent(agent, {"limits": {"max_children_total": 2}})
    agent.refresh_from_db()
    session.agent_version_id = agent.current_id
    session.save(update_fields=["agent_version"])
    change_agent(agent, {"limits": {"max_children_total": 10}})
    script([spawn_call("a")], [spawn_call("b")], [spawn_call("c")], words("Then not."))
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    serve(child.pk)
    serve(child_of(child).pk)

    said = newest(child_of(child), E.AGENT_TOOL_RESULT).payload["error"]
    assert (
        "at the top of this one has had all of its 2 sub-agents, with those that they started"
        in said
    )
    assert Session.objects.count() == 3


@pytest.mark.parametrize("named", ["Nobody", "x" * 36])
def test_an_unknown_agent_is_an_error(session, principal, script, named):
    script([spawn_call(agent=named)], words("Then not."))
    say(session, principal)
    serve(session.pk)

    said = newest(session, E.AGENT_TOOL_RESULT).payload["error"]
    assert said == f"There is no agent named {named!r} in this workspace."


def test_a_child_without_money_fails_and_its_parent_is_told(session, principal, script, workspace):
    script([spawn_call(budget_usd=0)], words("Then not."))
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    assert Purse.objects.get(owner_id=child.pk).ceiling == Decimal(0)
    serve(child.pk)
    serve(session.pk)
    assert "budget" in newest(session, E.AGENT_TOOL_RESULT).payload["error"]
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "Then not."


def test_a_child_that_reached_its_limit_has_failed_its_task(session, principal, script):
    script([spawn_call()], words("Then not."))
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    run_queue.finish(run_queue.claim(child.pk, OWNER), OWNER, stop_reason="step_limit")

    assert SubagentSpawn.objects.get().status == "failed"
    spawns.deliver_results_of(child.pk)
    told = newest(session, E.AGENT_TOOL_RESULT).payload
    assert told["state"] == "error"
    assert "step_limit" in told["error"]


def test_a_childs_answer_that_reached_its_token_limit_is_its_result_and_says_so(
    session, principal, script
):
    script([spawn_call()], [TextDelta(text="Half of"), Truncated()], words("I see."))
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    serve(child.pk)
    serve(session.pk)

    assert SubagentSpawn.objects.get().status == "completed"
    told = newest(session, E.AGENT_TOOL_RESULT).payload
    assert told["state"] == "completed"
    assert "Half of" in str(told["output"])
    assert "reached its token limit" in str(told["output"])


def test_a_task_for_an_agent_without_money_is_a_clear_error(
    session, principal, script, workspace, owner
):
    poor = create_agent(
        workspace_id=workspace.pk, fields={"name": "Poor", "provider": "demo", "model": "demo"}
    )
    set_budget(workspace_id=workspace.pk, kind="agent", owner_id=poor.pk, ceiling=Decimal(0))
    script([spawn_call(agent="Poor")], words("I did it myself."))
    say(session, principal)
    serve(session.pk)
    assert "budget of this agent" in newest(session, E.AGENT_TOOL_RESULT).payload["error"]
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "I did it myself."
    assert not Session.objects.filter(parent=session).exists()


@pytest.mark.parametrize("wait", [True, False])
def test_the_whole_turn_is_charged_to_the_person_and_key_that_started_it(
    api, session, script, wait
):
    after = [] if wait else [words("I go on.")]
    script([spawn_call(wait=wait)], *after, words("Seven."), words("It is seven."))
    api.post(f"/api/v1/sessions/{session.pk}/messages/", {"text": "hi"}, format="json")
    serve(session.pk)
    child = child_of(session)
    serve(child.pk)
    serve(session.pk)

    first = Run.objects.filter(session=session).earliest("created_at")
    assert first.key_id
    paid = ModelCall.objects.values_list("session_id", "key_id", "created_by_id")
    assert {session_id for session_id, *_ in paid} == {session.pk, child.pk}
    assert {tuple(payer) for _, *payer in paid} == {(first.key_id, first.created_by_id)}


def test_stopping_the_parent_stops_its_children(session, principal, script):
    script([spawn_call()], [spawn_call("c2")])
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    serve(child.pk)
    grandchild = child_of(child)

    run_queue.stop(session.pk)

    for task in SubagentSpawn.objects.all():
        assert task.status == "cancelled"
    for one in (child, grandchild):
        one.refresh_from_db()
        assert one.status == "idle"
    spawns.deliver_pending()
    assert SubagentSpawn.objects.filter(delivered_at=None).count() == 0
    serve_all(session, child, grandchild)
    assert Run.objects.filter(status__in=["queued", "running"]).count() == 0


def test_the_supervisor_stops_children_that_a_killed_process_marked_to_stop(
    session, principal, script
):
    script([spawn_call()])
    say(session, principal)
    serve(session.pk)
    SubagentSpawn.objects.update(stop_asked=True)
    spawns.deliver_pending()
    assert SubagentSpawn.objects.get().status == "cancelled"


def test_archiving_the_parent_stops_its_children(session, principal, script):
    script([spawn_call(wait=False)], words("Going on."))
    say(session, principal)
    serve(session.pk)
    archive(session, None)
    assert SubagentSpawn.objects.get().status == "cancelled"


def test_a_child_never_has_a_tool_that_its_parent_lacks(session, principal, script, workspace):
    from tools_app.policy.storage import PolicyTarget, change_policy

    provider = script([spawn_call()], words("Seven."), words("Done."))
    place = PolicyTarget(workspace_id=workspace.pk, layer="session", subject_id=session.pk)
    change_policy(principal, place, {"denied_tools": ["read"]})
    say(session, principal)
    serve(session.pk)
    serve(child_of(session).pk)
    offered = {tool.name for tool in provider.requests[1].tools}
    assert "read" not in offered
    assert "list_directory" in offered


def test_a_child_that_waits_for_an_approval_has_not_finished_its_task(session, principal, script):
    script(
        [spawn_call()],
        [ToolCall(call_id="x", name="exec", arguments={"command": "true"})],
    )
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    serve(child.pk)
    child.refresh_from_db()
    assert child.status == "requires_action"
    assert SubagentSpawn.objects.get().status == "running"
