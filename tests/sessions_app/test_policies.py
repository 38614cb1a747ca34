"""Tests that a run obeys the policies of its start and records them."""

from __future__ import annotations

import pytest

from agents.providers.base import ToolCall
from sessions_app.accept import accept_event
from sessions_app.models import Run, SessionEvent, ToolExecution
from sessions_app.sessions import fork
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import WORDS, say
from tools_app import save_tool_policy
from tools_app.policy.effective import effective_policy
from tools_app.policy.storage import find_target, policy_history, save_policy

E = SessionEvent.Type


def command(text: str, id: str = "c1") -> ToolCall:
    return ToolCall(call_id=id, name="exec", arguments={"command": text})


def the_time(id: str = "c1") -> ToolCall:
    return ToolCall(call_id=id, name="current_time", arguments={})


def offered(provider, nth: int = -1) -> set[str]:
    return {spec.name for spec in provider.requests[nth].tools}


def test_a_policy_change_applies_to_the_next_run(session, principal, script):
    provider = script(WORDS, WORDS)
    say(session, principal)
    serve(session.pk)

    save_tool_policy(session.agent_id, {"profile": "coding", "denied_tools": ["web_fetch"]})
    say(session, principal)
    serve(session.pk)

    assert offered(provider, 0) - offered(provider, 1) == {"web_fetch"}


def test_a_run_records_its_policy_with_the_reasons(session, principal, script):
    script(WORDS)
    save_policy(find_target(session.workspace_id, "workspace"), {"denied_tools": ["group:web"]})
    say(session, principal)

    serve(session.pk)

    kept = Run.objects.get().policy
    assert kept["web_fetch"] == {
        "decision": "deny",
        "decided_by": "workspace: denied group:web",
    }
    assert kept["read"] == {"decision": "allow", "decided_by": "agent: profile coding"}
    assert kept["exec"] == {"decision": "ask", "decided_by": "default: exec asks first"}


def test_the_policy_of_the_run_applies_to_redirects(
    session, principal, script, httpserver, settings
):
    settings.EGRESS_ALLOWED_PRIVATE = [f"web=localhost:{httpserver.port}"]
    httpserver.expect_request("/old").respond_with_data(
        "", status=302, headers={"Location": "/inner"}
    )
    fetch = ToolCall(call_id="c1", name="web_fetch", arguments={"url": httpserver.url_for("/old")})
    script([fetch], WORDS)
    save_tool_policy(session.agent_id, {"denied_tools": ["web_fetch(*/inner)"]})
    say(session, principal)

    serve(session.pk)

    call = ToolExecution.objects.get()
    assert (call.decision, call.state) == ("allow", "error")
    assert "redirects to" in call.error
    assert [request.path for request, _ in httpserver.log] == ["/old"]


def test_a_denied_call_never_runs_and_names_its_rule(session, principal, script):
    script([command("rm -rf .")], WORDS)
    save_tool_policy(session.agent_id, {"denied_tools": ["exec(rm *)"]})
    say(session, principal)

    serve(session.pk)

    use = newest(session, E.AGENT_TOOL_USE).payload
    result = newest(session, E.AGENT_TOOL_RESULT).payload
    assert (use["decision"], use["decided_by"]) == ("deny", "agent: denied exec(rm *)")
    assert (result["state"], result["error"]) == (
        "denied",
        "Not allowed: agent: denied exec(rm *).",
    )


def test_the_arguments_of_a_call_decide_whether_it_needs_approval(session, principal, script):
    script([command("git push")], WORDS)
    save_tool_policy(session.agent_id, {"allowed_tools": ["exec(git status*)"]})
    say(session, principal)

    serve(session.pk)

    waiting = ToolExecution.objects.get()
    assert (waiting.state, waiting.decided_by) == (
        "awaiting_approval",
        "agent: outside exec(git status*)",
    )


@pytest.mark.parametrize("changed", ["arguments", "policy"])
def test_an_approval_does_not_override_a_deny(session, principal, script, changed):
    script([command("ls")], WORDS)
    save_tool_policy(session.agent_id, {"denied_tools": ["exec(rm *)"]})
    say(session, principal)
    serve(session.pk)
    if changed == "policy":
        save_policy(find_target(session.workspace_id, "workspace"), {"denied_tools": ["exec"]})
    answer: dict[str, object] = {"decision": "allow"}
    answer["tool_use_id"] = ToolExecution.objects.get().tool_use_id
    if changed == "arguments":
        answer["input"] = {"command": "rm -rf ."}

    accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=answer)
    serve(session.pk)

    assert ToolExecution.objects.get().state == "denied"
    assert "Not allowed" in newest(session, E.AGENT_TOOL_RESULT).payload["error"]


def test_a_long_rule_is_cut_in_the_ledger(session, principal, script):
    script([command("x")], WORDS)
    rules = [f"exec({'y' * 130}{n})" for n in range(3)]
    save_tool_policy(session.agent_id, {"allowed_tools": rules})
    say(session, principal)

    serve(session.pk)

    assert len(ToolExecution.objects.get().decided_by) == 200


@pytest.mark.parametrize("layer", ["agent", "session"])
def test_the_policys_limit_of_calls_bounds_the_turn(session, principal, script, layer):
    script([the_time("1"), the_time("2"), the_time("3")], WORDS)
    subject = session.agent_id if layer == "agent" else session.pk
    place = find_target(session.workspace_id, layer, subject)
    save_policy(place, {"max_tool_calls_per_turn": 2})
    say(session, principal)

    serve(session.pk)

    states = ToolExecution.objects.order_by("id").values_list("state", flat=True)
    assert list(states) == ["completed", "completed", "cancelled"]
    assert Run.objects.get().stop_reason == "tool_limit"
    assert "2 tool calls" in newest(session, E.ERROR).payload["message"]


def test_a_model_without_tool_calls_left_can_still_answer(session, principal, script):
    script(WORDS)
    save_tool_policy(session.agent_id, {"max_tool_calls_per_turn": 0})
    say(session, principal)

    serve(session.pk)

    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "All done."


def test_a_turn_that_waited_for_an_approval_keeps_counting_its_calls(session, principal, script):
    script([the_time()], [command("ls")], [the_time("3")], WORDS)
    save_tool_policy(session.agent_id, {"max_tool_calls_per_turn": 2})
    say(session, principal)
    serve(session.pk)
    waiting = ToolExecution.objects.get(state="awaiting_approval")

    answer = {"tool_use_id": waiting.tool_use_id, "decision": "allow"}
    accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=answer)
    serve(session.pk)

    assert Run.objects.latest("created_at").stop_reason == "tool_limit"
    assert ToolExecution.objects.count() == 2


def test_a_fork_copies_the_policy_of_its_session(session):
    place = find_target(session.workspace_id, "session", session.pk)
    save_policy(place, {"denied_tools": ["write"], "max_tool_calls_per_turn": 5})
    save_policy(place, {"denied_tools": ["write", "edit"]})

    forked = fork(session, 0, None)

    copied = policy_history(find_target(session.workspace_id, "session", forked.pk)).get()
    assert (copied.revision, copied.denied_tools) == (1, ["write", "edit"])
    assert copied.author == f"copied from {session.pk}"
    assert effective_policy(session.agent_version, forked.pk)["edit"].decision == "deny"


def test_a_fork_of_a_session_without_a_policy_has_none(session):
    forked = fork(session, 0, None)

    assert not policy_history(find_target(session.workspace_id, "session", forked.pk)).exists()
