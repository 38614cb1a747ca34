"""Tests of peers: agents whose sessions an agent's policy lets it list, read or write to."""

from __future__ import annotations

from typing import Any

import pytest

from agents.definitions import create_agent
from agents.providers.base import ToolCall
from sessions_app.context.taint import is_tainted
from sessions_app.models import Session, ToolExecution
from sessions_app.sessions import get_or_create_session
from tests.conftest import add_member
from tests.injection.test_lifting import decision, tainted
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.spawning import agent, serve_all, words
from tests.sessions_app.stage import E, say
from tests.sessions_app.subagents.test_peer_sessions import PingPong, send_call
from tools_app import save_tool_policy

__all__ = ["agent", "tainted"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clerk(workspace, owner):
    fields = {"name": "Clerk", "provider": "demo", "model": "demo"}
    made = create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)
    save_tool_policy(made.pk, {"profile": "full"})
    return made


@pytest.fixture
def desk(clerk, owner):
    made, _ = get_or_create_session(
        agent=clerk, session_key="desk", title="Clerk's desk", created_by_id=owner.pk
    )
    return made


def name_peer(agent, peer, *may: str) -> None:
    save_tool_policy(
        agent.pk, {"profile": "full", "peers": [{"agent": str(peer.pk), "may": list(may)}]}
    )


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "list": ("sessions_list", {}),
    "read": ("sessions_history", {"limit": 5}),
    "send": ("sessions_send", {"message": "Hello?", "wait": False}),
}


def try_call(session, desk, principal, script, right: str) -> ToolExecution:
    name, arguments = CALLS[right]
    if right != "list":
        arguments = {"session": str(desk.pk), **arguments}
    script([ToolCall(call_id="c", name=name, arguments=arguments)], words("Done."))
    say(session, principal)
    serve(session.pk)
    return ToolExecution.objects.get(session=session)


def worked(call: ToolExecution) -> bool:
    listed = call.name == "sessions_list" and call.output != []
    return listed or (call.name != "sessions_list" and call.state == "completed")


@pytest.mark.parametrize("tried", ["list", "read", "send"])
@pytest.mark.parametrize("may", [(), ("list",), ("read",), ("send",), ("list", "read", "send")])
def test_each_right_to_a_peer_opens_what_it_names_and_nothing_else(
    session, agent, clerk, desk, principal, script, may, tried
):
    if may:
        name_peer(agent, clerk, *may)
    assert worked(try_call(session, desk, principal, script, tried)) is (tried in may)


def test_a_listed_session_says_whose_it_is(session, agent, clerk, desk, principal, script):
    name_peer(agent, clerk, "list")
    (listed,) = try_call(session, desk, principal, script, "list").output
    assert (listed["agent"], listed["id"]) == ("Clerk", str(desk.pk))


def test_the_reply_of_a_peer_is_the_result(session, agent, clerk, desk, principal, script):
    name_peer(agent, clerk, "send")
    script([send_call(desk.pk)], words("Yes?"), words("They said yes."))
    say(session, principal)
    serve(session.pk)
    serve(desk.pk)
    serve(session.pk)
    assert newest(session, E.AGENT_TOOL_RESULT).payload["output"]["result"] == "Yes?"


def test_a_peer_does_not_see_the_sessions_of_the_agent_that_names_it(
    session, agent, clerk, desk, principal, script
):
    name_peer(agent, clerk, "list", "read", "send")
    assert not worked(try_call(desk, session, principal, script, "list"))


@pytest.mark.parametrize("right", ["list", "read", "send"])
def test_what_other_people_told_a_peer_stays_with_them(
    session, agent, clerk, desk, principal, script, workspace, right
):
    name_peer(agent, clerk, "list", "read", "send")
    Session.objects.filter(pk=desk.pk).update(created_by=add_member(workspace, "builder"))
    assert not worked(try_call(session, desk, principal, script, right))


def test_a_session_that_builds_an_agent_is_nobodys_peer(
    session, agent, clerk, desk, principal, script
):
    name_peer(agent, clerk, "send")
    Session.objects.filter(pk=desk.pk).update(about=agent)
    assert not worked(try_call(session, desk, principal, script, "send"))


def test_a_subagent_reaches_no_peer_that_its_parent_does_not_reach(
    session, agent, clerk, desk, workspace, owner, principal, script
):
    helper = create_agent(
        workspace_id=workspace.pk,
        fields={"name": "Helper", "provider": "demo", "model": "demo"},
        created_by=owner,
    )
    name_peer(helper, clerk, "list")
    task = {"task": "Look.", "agent": "Helper"}
    script(
        [ToolCall(call_id="s", name="sessions_spawn", arguments=task)],
        [ToolCall(call_id="l", name="sessions_list", arguments={"query": "Clerk's desk"})],
        words("Nothing."),
        words("Done."),
    )
    say(session, principal)
    serve(session.pk)
    child = Session.objects.get(parent=session)
    serve(child.pk)
    assert ToolExecution.objects.get(session=child).output == []


def test_an_endless_exchange_between_peers_is_ended(
    session, agent, clerk, desk, principal, script, monkeypatch
):
    name_peer(agent, clerk, "send")
    name_peer(clerk, agent, "send")
    endless = PingPong(session, desk)
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: endless)
    say(session, principal)
    serve_all(session, desk)
    (refused,) = ToolExecution.objects.filter(state="error")
    assert "A person has to write a message" in refused.error


@pytest.mark.parametrize("right", ["list", "read"])
def test_what_a_peer_said_taints(session, agent, clerk, desk, principal, script, right):
    name_peer(agent, clerk, right)
    try_call(session, desk, principal, script, right)
    assert is_tainted(session.pk)


def test_a_message_of_a_tainted_session_taints_the_peer(
    tainted, agent, clerk, desk, principal, script
):
    name_peer(agent, clerk, "send")
    decision(tainted, script, principal, [send_call(desk.pk, wait=False)])
    assert is_tainted(desk.pk)


@pytest.mark.parametrize(("may", "expected"), [(("send",), "allow"), (("list", "read"), "ask")])
def test_a_message_to_a_peer_that_may_be_written_to_asks_no_more(
    tainted, agent, clerk, desk, principal, script, may, expected
):
    name_peer(agent, clerk, *may)
    call = decision(tainted, script, principal, [send_call(desk.pk, wait=False)])
    assert call.decision == expected
