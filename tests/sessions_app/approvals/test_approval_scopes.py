"""Tests of what an allow covers: this call, equal calls of the session, or a rule of the agent."""

from __future__ import annotations

import pytest

from core.exceptions import Forbidden, Invalid
from sessions_app.exceptions import StillAsks
from sessions_app.models import Approval, SessionEvent, ToolExecution
from sessions_app.sessions import fork, get_or_create_session
from tenants.access import principal_of_user
from tests.conftest import add_member
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import WORDS, say
from tests.sessions_app.waiting_calls import allow, ask, command, deny, parked
from tools_app import save_tool_policy
from tools_app.policy.effective import effective_policy
from tools_app.policy.rules import grant_rule, permanent_rule
from tools_app.policy.storage import (
    agent_target,
    find_target,
    policy_history,
    save_policy,
    stored_policy,
)
from tools_app.registry import registry

E = SessionEvent.Type


@pytest.fixture
def builder(workspace):
    return principal_of_user(add_member(workspace, "builder"), workspace.pk)


def states() -> list[str]:
    return list(ToolExecution.objects.order_by("id").values_list("decision", flat=True))


def run_again(session, principal, script, text: str) -> str:
    """Run the command in a new run and return the decision on it."""
    script([command(text)], WORDS)
    say(session, principal)
    serve(session.pk)
    return ToolExecution.objects.latest("id").decision


def test_an_allow_for_the_session_covers_later_runs_but_only_that_command(
    session, principal, script
):
    asked = ask(session, principal, script, text="echo hi")
    allow(asked, principal, scope="session")
    serve(session.pk)

    assert [run_again(session, principal, script, "echo hi") for _ in range(3)] == ["allow"] * 3
    use = newest(session, E.AGENT_TOOL_USE).payload
    assert use["decided_by"] == "session: a person allowed exec(echo hi) for this session"
    assert run_again(session, principal, script, "echo hi; rm -rf .") == "ask"


def test_an_allow_for_the_session_covers_the_run_that_waited(session, principal, script):
    asked = ask(session, principal, script, [command("ls")], [command("ls")], WORDS)

    allow(asked, principal, scope="session")
    serve(session.pk)

    assert states() == ["ask", "allow"]


def test_an_allow_for_the_session_covers_no_other_session_or_fork(session, principal, script):
    allow(ask(session, principal, script), principal, scope="session")
    serve(session.pk)
    other, _ = get_or_create_session(agent=session.agent)

    for one in (other, fork(session, session.last_seq, None)):
        assert run_again(one, principal, script, "echo hi") == "ask"


@pytest.mark.parametrize("layer", ["workspace", "agent", "session"])
def test_an_allow_for_the_session_never_overrides_a_deny(session, principal, script, layer):
    allow(ask(session, principal, script), principal, scope="session")
    serve(session.pk)
    subject = {"agent": session.agent_id, "session": session.pk}.get(layer)
    save_policy(find_target(session.workspace_id, layer, subject), {"denied_tools": ["exec"]})

    assert run_again(session, principal, script, "echo hi") == "deny"


def test_an_allow_for_the_session_answers_the_workspaces_rule_to_ask(session, principal, script):
    save_policy(find_target(session.workspace_id, "workspace"), {"ask_tools": ["exec"]})
    allow(ask(session, principal, script), principal, scope="session")
    serve(session.pk)

    assert run_again(session, principal, script, "echo hi") == "allow"


def test_the_simulator_knows_what_was_allowed_for_the_session(session, principal, script):
    allow(ask(session, principal, script), principal, scope="session")
    policy = effective_policy(session.agent_version, session.pk)

    told = policy.simulate("exec", {"command": "echo hi"})

    assert (told.decision, told.layer) == ("allow", "session")
    assert policy.simulate("exec", {"command": "echo ho"}).decision == "ask"


def test_an_allow_for_the_session_covers_the_edited_arguments(session, principal, script):
    allow(
        ask(session, principal, script, text="rm -rf ."),
        principal,
        scope="session",
        input={"command": "echo safe"},
    )
    serve(session.pk)

    assert run_again(session, principal, script, "echo safe") == "allow"
    assert run_again(session, principal, script, "rm -rf .") == "ask"
    asked = Approval.objects.earliest("id")
    assert (asked.input, asked.edited_input) == (
        {"command": "rm -rf ."},
        {"command": "echo safe"},
    )


def test_edited_arguments_that_do_not_fit_the_tool_leave_the_approval_pending(
    session, principal, script
):
    asked = ask(session, principal, script)

    with pytest.raises(Invalid, match="Invalid arguments for exec"):
        allow(asked, principal, input={"comand": "ls"})

    asked.refresh_from_db()
    assert (asked.status, ToolExecution.objects.get().state) == ("pending", "awaiting_approval")


def test_allowing_always_writes_a_rule_with_history_and_no_session_asks_again(
    session, principal, script
):
    allow(ask(session, principal, script, text="ls *.py"), principal, scope="always")
    serve(session.pk)

    place = agent_target(session.agent_id)
    policy = stored_policy(place)
    other, _ = get_or_create_session(agent=session.agent)
    assert (policy.profile, policy.approved_tools) == ("coding", ["exec(ls [*].py)"])
    assert policy_history(place).get().author == "owner@example.com"
    assert run_again(other, principal, script, "ls *.py") == "allow"
    assert run_again(other, principal, script, "ls a.py") == "ask"


def test_allowing_always_adds_to_the_existing_rules(session, principal, script):
    save_tool_policy(
        session.agent_id, {"approved_tools": ["exec(git *)"], "denied_tools": ["edit"]}
    )

    allow(ask(session, principal, script), principal, scope="always")

    policy = stored_policy(agent_target(session.agent_id))
    assert policy.approved_tools == ["exec(git *)", "exec(echo hi)"]
    assert policy.denied_tools == ["edit"]


def test_allowing_always_is_an_exception_from_the_agents_own_rule_to_ask(
    session, principal, script
):
    save_tool_policy(session.agent_id, {"ask_tools": ["exec", "write"]})

    allow(ask(session, principal, script, text="ls"), principal, scope="always")
    serve(session.pk)

    policy = stored_policy(agent_target(session.agent_id))
    assert (policy.approved_tools, policy.ask_tools) == (["exec(ls)"], ["exec", "write"])
    other, _ = get_or_create_session(agent=session.agent)
    assert run_again(other, principal, script, "ls") == "allow"
    assert run_again(other, principal, script, "ls /") == "ask"


def test_allowing_always_needs_the_right_to_admin(session, principal, builder, script):
    asked = ask(session, principal, script)

    with pytest.raises(Forbidden, match="right to admin"):
        allow(asked, builder, scope="always")

    assert stored_policy(agent_target(session.agent_id)).revision == 0
    assert allow(asked, builder, scope="session").approval.status == "allowed"


@pytest.mark.parametrize(
    ("layer", "policy"),
    [
        ("workspace", {"ask_tools": ["exec"]}),
        ("agent", {"ask_tools": ["exec(echo*)"]}),
    ],
)
def test_allowing_always_is_refused_when_another_rule_would_still_ask(
    session, principal, script, layer, policy
):
    subject = session.agent_id if layer == "agent" else None
    place = find_target(session.workspace_id, layer, subject)
    save_policy(place, policy)
    asked = ask(session, principal, script)

    with pytest.raises(StillAsks, match=f"{layer}: asked exec"):
        allow(asked, principal, scope="always")

    asked.refresh_from_db()
    assert asked.status == "pending"
    assert stored_policy(place).revision == 1


def test_allowing_always_is_refused_for_a_command_that_no_rule_can_allow(
    session, principal, script
):
    asked = ask(session, principal, script, text="a && b")

    with pytest.raises(StillAsks):
        allow(asked, principal, scope="always")


def test_allowing_always_needs_the_right_to_admin_for_a_harmless_tool_too(session, builder):
    save_tool_policy(session.agent_id, {"profile": "coding", "ask_tools": ["write"]})
    (asked,) = parked(session, name="write")

    with pytest.raises(Forbidden, match="right to admin"):
        allow(asked, builder, scope="always")


def test_a_deny_covers_only_this_call(session, principal):
    (asked,) = parked(session)

    with pytest.raises(Invalid, match="Only an allow"):
        deny(asked, principal, scope="session")


def test_a_viewer_cannot_answer(session, workspace):
    viewer = principal_of_user(add_member(workspace, "viewer"), workspace.pk)
    (asked,) = parked(session)

    for answer in (allow, deny):
        with pytest.raises(Forbidden):
            answer(asked, viewer)


@pytest.mark.parametrize(
    ("tool", "input", "rule", "lasting"),
    [
        ("exec", {"command": " ls [a]* "}, "exec(ls [a]*)", "exec(ls [[]a][*])"),
        (
            "web_fetch",
            {"url": "https://Docs.Python.org/3/?q=1"},
            "web_fetch(https://docs.python.org/*)",
            "web_fetch(https://docs.python.org/*)",
        ),
        (
            "web_fetch",
            {"url": "https://me:pw@x.org/a"},
            "web_fetch(https://me:pw@x.org/a)",
            "web_fetch(https://me:pw@x.org/a)",
        ),
        ("write", {"path": "a", "content": "b"}, "write", "write(*)"),
    ],
)
def test_the_rule_is_the_command_the_site_or_the_tool(tool, input, rule, lasting):
    assert grant_rule(registry[tool], input) == rule
    assert permanent_rule(registry[tool], input) == lasting
