"""Tests that many tools cost few tokens: the model knows them by a line and loads what it needs."""

from __future__ import annotations

from typing import Any

import pytest

from agents.providers.base import ToolCall, estimate_request
from sessions_app import runtime
from sessions_app.accept import accept_event
from sessions_app.context.conversation import build_messages, read_newest
from sessions_app.context.preview import preview
from sessions_app.models import ContextSnapshot, Session, ToolExecution
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.spawning import words
from tests.sessions_app.stage import E, say
from tools_app.models import CustomTool, McpServer

pytestmark = pytest.mark.django_db(transaction=True)

NOUNS = ("issue", "branch", "release", "comment", "label", "milestone", "review", "commit")
VERBS = ("create", "list", "update", "delete", "search", "archive", "assign", "compare")


def entry(nth: int) -> dict[str, Any]:
    verb, noun = VERBS[nth % 8], NOUNS[nth // 8 % 8]
    name = f"{verb}_{noun}_{nth // 64}" if nth >= 64 else f"{verb}_{noun}"
    fields = {
        field: {"type": "string", "description": f"The {field} of the {noun} in its repository."}
        for field in ("owner", "repository", "title", "body", "state")
    }
    return {
        "name": name,
        "description": f"{verb.capitalize()} the {noun} of a repository. " + "More of it. " * 20,
        "input_schema": {"type": "object", "properties": fields, "required": ["owner"]},
    }


@pytest.fixture
def servers(workspace) -> list[McpServer]:
    """Two servers with a hundred tools each, as a refresh stores them."""
    return [
        McpServer.objects.create(
            workspace_id=workspace.pk,
            name=name,
            url="https://mcp.example/",
            permission="always_allow",
            tools=[entry(nth) for nth in range(100)],
            status="ok",
        )
        for name in ("forge", "depot")
    ]


def ask(tool: str, /, **arguments: Any) -> list[object]:
    return [ToolCall(call_id=f"c-{tool}", name=tool, arguments=arguments)]


def test_two_hundred_tools_of_servers_cost_fewer_than_three_thousand_tokens(
    session, principal, script, workspace
):
    model = script(words("Hi."), words("Hi."))
    say(session, principal)
    serve(session.pk)
    for name in ("forge", "depot"):
        McpServer.objects.create(
            workspace_id=workspace.pk,
            name=name,
            url="https://mcp.example/",
            tools=[entry(nth) for nth in range(100)],
            status="ok",
        )
    other, _ = runtime.get_or_create_session(session.agent, "other", principal=principal)
    say(other, principal)
    serve(other.pk)

    before, after = map(estimate_request, model.requests)
    assert 500 < after - before < 3_000
    listed = model.requests[1].messages[0].text
    assert listed.count("\n- ") == 200
    assert listed.count("### mcp:") == 2
    assert "\n- create_issue: Create the issue" in listed
    shown = {part.name: part for part in preview(other).parts}
    assert shown["more_tools"].tokens < 2_500


def test_few_tools_are_described_in_full(session, principal, script, workspace):
    McpServer.objects.create(
        workspace_id=workspace.pk, name="forge", url="https://mcp.example/",
        tools=[entry(nth) for nth in range(3)], status="ok",
    )  # fmt: skip
    model = script(words("Hi."))
    say(session, principal)
    serve(session.pk)

    names = [tool.name for tool in model.requests[0].tools]
    assert "mcp:forge:create_issue" in names
    assert "tool_load" not in names


def test_a_tool_is_found_loaded_and_called_under_its_own_name(
    session, principal, script, servers, monkeypatch
):
    called: list[dict[str, Any]] = []

    def handler(self: object, arguments: Any, context: object) -> str:
        called.append(arguments.model_dump())
        return "Made issue 7."

    monkeypatch.setattr("tools_app.mcp.tools.Call.__call__", handler)
    model = script(
        ask("tool_search", query="create an issue"),
        ask("tool_load", names=["mcp:forge:create_issue"]),
        ask("tool_call", name="mcp:forge:create_issue", arguments={"owner": "ann"}),
        ask("tool_call", name="mcp:forge:no_such", arguments={}),
        words("Done."),
    )
    say(session, principal)
    serve(session.pk)

    last = model.requests[-1].messages
    results = [message.results[0] for message in last if message.results]
    assert results[0].output.startswith("- mcp:")
    assert "create_issue" in results[0].output
    assert '"required":["owner"]' in results[1].output
    assert called == [{"owner": "ann"}]
    assert "There is no tool named 'mcp:forge:no_such'" in results[3].output
    # The ledger and the log name the tool; the model sees the call that it made.
    execution = ToolExecution.objects.get(name="mcp:forge:create_issue")
    assert (execution.input, execution.ownership) == ({"owner": "ann"}, "mcp")
    again = next(m.calls[0] for m in last if m.calls and "forge:create" in str(m.calls[0].arguments.get("name")))  # fmt: skip
    assert (again.name, results[2].name) == ("tool_call", "tool_call")
    assert again.arguments == {"name": "mcp:forge:create_issue", "arguments": {"owner": "ann"}}
    assert "Made issue 7." in results[2].output
    assert "UNTRUSTED" in results[2].output
    # Nothing in front of the conversation has changed.
    assert all(request.tools == model.requests[0].tools for request in model.requests)
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


def test_the_policy_of_the_tool_itself_decides(session, principal, script, servers, monkeypatch):
    monkeypatch.setattr("tools_app.mcp.tools.Call.__call__", lambda *_: "Made.")
    McpServer.objects.filter(name="forge").update(permission="always_ask")
    model = script(
        ask("tool_call", name="mcp:forge:create_issue", arguments={"owner": "ann"}),
        words("Done."),
    )
    say(session, principal)
    serve(session.pk)
    execution = ToolExecution.objects.get()
    assert (execution.name, execution.state) == ("mcp:forge:create_issue", "awaiting_approval")

    answer = {"tool_use_id": execution.tool_use_id, "decision": "allow"}
    accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=answer)
    serve(session.pk)

    assert "Made." in model.requests[-1].messages[-1].results[0].output


def test_denied_tools_are_neither_listed_nor_found_nor_called(
    session, principal, script, servers, api
):
    denied = {"profile": "full", "denied_tools": ["mcp:forge:*"]}
    api.put(f"/api/v1/agents/{session.agent_id}/policy/", denied, format="json")
    model = script(
        ask("tool_search", query="forge"),
        ask("tool_load", names=["mcp:forge:create_issue"]),
        ask("tool_call", name="mcp:forge:create_issue", arguments={"owner": "ann"}),
        words("Done."),
    )
    say(session, principal)
    serve(session.pk)

    assert "forge" not in model.requests[0].messages[0].text
    results = [m.results[0] for m in model.requests[-1].messages if m.results]
    assert all(result.is_error for result in results)
    assert len(results) == 3


def test_what_was_loaded_stays_loaded_after_a_compaction(session, principal, script, servers):
    model = script(
        ask("tool_load", names=["mcp:forge:create_issue"]),
        words("Loaded."),
        words("Task and state: the crew works on the yard, and all is well."),
        words("Hi."),
        words("Task and state: the crew works on the yard, and all is still well."),
        words("Hi again."),
    )
    say(session, principal)
    serve(session.pk)
    for nth in range(2):
        runtime.compact(session, principal=principal, keep_recent_messages=0)
        serve(session.pk)
        assert ContextSnapshot.objects.count() == nth + 1
        say(session, principal, "hello")
        serve(session.pk)

        text = model.requests[-1].messages[0].text
        assert "## mcp:forge:create_issue\n" in text
        assert '"required":["owner"]' in text
        assert "## mcp:depot:create_issue\n" not in text


def test_custom_tools_are_deferred_too_and_their_client_sees_the_tool(
    session, principal, script, workspace
):
    for nth in range(60):
        told = entry(nth)
        CustomTool.objects.create(
            workspace_id=workspace.pk, name=told["name"],
            description=told["description"], input_schema=told["input_schema"],
        )  # fmt: skip
    script(ask("tool_call", name="create_issue", arguments={"owner": "ann"}))
    say(session, principal)
    serve(session.pk)

    use = newest(session, "agent.custom_tool_use").payload
    assert (use["name"], use["input"], use["via"]) == (
        "create_issue",
        {"owner": "ann"},
        "tool_call",
    )


def test_a_log_without_deferred_tools_reads_the_same(session: Session, principal, script):
    script(ask("current_time"), words("Now."))
    say(session, principal)
    serve(session.pk)

    messages = build_messages(read_newest(session.pk, 0))
    assert messages[1].calls[0].name == "current_time"
    assert messages[2].results[0].name == "current_time"
