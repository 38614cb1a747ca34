"""Tests of messages between sessions: no deadlock, no endless exchange, no foreign sessions."""

from __future__ import annotations

import pytest

from agents.providers.base import ToolCall
from sessions_app.models import Run, Session, SubagentSpawn, ToolExecution
from sessions_app.sessions import get_or_create_session
from sessions_app.subagents import spawns
from tests.fakes import ScriptedProvider
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.spawning import agent, serve_all, words
from tests.sessions_app.stage import E, say

__all__ = ["agent"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other(agent, owner):
    made, _ = get_or_create_session(agent=agent, session_key="desk", created_by_id=owner.pk)
    return made


def send_call(session: object, id: str = "s1", **arguments: object) -> ToolCall:
    named = {"session": str(session), "message": "Hello?", **arguments}
    return ToolCall(call_id=id, name="sessions_send", arguments=named)


def test_the_reply_of_another_session_is_the_result(session, other, principal, script):
    script([send_call("desk")], words("Yes?"), words("They said yes."))
    say(session, principal)
    serve(session.pk)
    serve(other.pk)
    serve(session.pk)
    assert newest(session, E.AGENT_TOOL_RESULT).payload["output"]["result"] == "Yes?"
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "They said yes."


def test_two_sessions_cannot_wait_for_each_other(session, other, principal, script):
    script(
        [send_call(other.pk)],
        [send_call(session.pk, "s2")],
        words("I answer instead."),
        words("Good."),
    )
    say(session, principal)
    serve(session.pk)
    serve(other.pk)
    assert "waits for a reply from this one" in newest(other, E.AGENT_TOOL_RESULT).payload["error"]
    serve(session.pk)
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "Good."


class PingPong(ScriptedProvider):
    """Always messages the other session."""

    def __init__(self, first: Session, second: Session) -> None:
        super().__init__()
        self.sessions, self.turns = [second, first], 0

    def stream(self, request):
        self.requests.append(request)
        if request.messages[-1].role == "tool":
            yield from words("Sent.")
            return
        target = self.sessions[self.turns % 2]
        self.turns += 1
        yield send_call(target.pk, f"p{self.turns}", wait=False)


def test_an_endless_exchange_is_ended_with_a_reason(session, other, principal, script, monkeypatch):
    endless = PingPong(session, other)
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: endless)
    say(session, principal)
    serve_all(session, other)
    errors = ToolExecution.objects.filter(state="error")
    assert [e.name for e in errors] == ["sessions_send"]
    assert "A person has to write a message" in errors[0].error
    assert endless.turns == 6
    assert not Run.objects.filter(status__in=["queued", "running"]).exists()


def test_a_reply_that_does_not_come_in_time_is_an_error(session, other, principal, script):
    script([send_call(other.pk)], words("Nobody there."))
    say(session, principal)
    serve(session.pk)
    SubagentSpawn.objects.update(expires_at="2020-01-01T00:00Z")
    spawns.deliver_pending()
    serve(session.pk)
    assert "No reply came in time" in newest(session, E.AGENT_TOOL_RESULT).payload["error"]


def foreign_session(foreign_workspace) -> Session:
    from tests.factories import session as make_session

    made = make_session(foreign_workspace)
    Session.objects.filter(pk=made.pk).update(session_key="theirs", title="Their secret plan")
    return made


@pytest.mark.parametrize("by", ["id", "key", "search", "history"])
def test_a_foreign_session_is_invisible_to_every_session_tool(
    session, principal, script, foreign_workspace, by
):
    foreign = foreign_session(foreign_workspace)
    say_to = {
        "id": send_call(foreign.pk),
        "key": send_call("theirs"),
        "search": ToolCall(call_id="l", name="sessions_list", arguments={"query": "secret plan"}),
        "history": ToolCall(
            call_id="h", name="sessions_history", arguments={"session": str(foreign.pk)}
        ),
    }[by]
    script([say_to], words("Nothing."))
    say(session, principal)
    serve(session.pk)
    result = newest(session, E.AGENT_TOOL_RESULT).payload
    assert result["output"] == [] if by == "search" else "no session" in result["error"]
    assert foreign.events.count() == 0


def test_a_session_of_another_agent_in_the_same_workspace_is_invisible_too(
    session, principal, script, workspace
):
    from tests.factories import session as make_session

    strange = make_session(workspace)
    script([send_call(strange.pk)], words("Nothing."))
    say(session, principal)
    serve(session.pk)
    assert "no session" in newest(session, E.AGENT_TOOL_RESULT).payload["error"]


def test_an_agent_can_read_the_history_of_its_other_sessions(session, other, principal, script):
    script(
        words("The code is 42."),
        [ToolCall(call_id="h", name="sessions_history", arguments={"session": "desk"})],
        words("42."),
    )
    say(other, principal, "What is the code?")
    serve(other.pk)
    say(session, principal)
    serve(session.pk)
    assert "The code is 42." in newest(session, E.AGENT_TOOL_RESULT).payload["output"]


class PingPongWithWaits(ScriptedProvider):
    """Asks a third session and waits for it before each message to the other one."""

    def __init__(self, first: Session, second: Session, third: Session) -> None:
        super().__init__()
        self.others = {str(first.pk): second, str(second.pk): first}
        self.third, self.turns = third, 0

    def stream(self, request):
        self.requests.append(request)
        last, asked = request.messages[-1], len(self.requests)
        if last.role == "user" and "Helper" in last.text:
            yield from words("Here.")
        elif last.role == "user":
            yield send_call(self.third.pk, f"w{asked}", message="Helper?")
        elif "Here." in last.results[-1].output:
            self.turns += 1
            target = list(self.others.values())[self.turns % 2]
            yield send_call(target.pk, f"p{asked}", wait=False)
        else:
            yield from words("Sent.")


def test_waiting_in_between_does_not_keep_an_endless_exchange_alive(
    session, other, agent, principal, script, monkeypatch
):
    third, _ = get_or_create_session(
        agent=agent, session_key="third", created_by_id=session.created_by_id
    )
    endless = PingPongWithWaits(other, session, third)
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: endless)
    say(session, principal)
    for _ in range(20):
        serve_all(session, third, other)
    refused = ToolExecution.objects.filter(state="error", name="sessions_send")
    assert refused
    assert all("A person has to write a message" in one.error for one in refused)
    assert not Run.objects.filter(status__in=["queued", "running"]).exists()


def test_a_reply_comes_from_the_turn_that_took_the_message(
    session, other, agent, principal, script
):
    third, _ = get_or_create_session(
        agent=agent, session_key="third", created_by_id=session.created_by_id
    )
    script(
        [send_call("third")],  # `other` waits for `third`,
        [send_call("desk", "s2")],  # while `session` messages `other` and waits.
        words("Third here."),
        words("An answer to somebody else."),
        words("Hello, session."),
        words("Good."),
    )
    say(other, principal)
    serve(other.pk)
    say(session, principal)
    serve(session.pk)
    serve(third.pk)
    serve(other.pk)
    serve(session.pk)
    assert newest(session, E.AGENT_TOOL_RESULT).payload["output"]["result"] == "Hello, session."
