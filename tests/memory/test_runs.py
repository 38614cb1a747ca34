"""Tests, with real runs, that an agent knows in one session what it learned in another."""

from __future__ import annotations

import pytest

from memory.models import MemoryEntry, MemoryVersion
from sessions_app.models import Session, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session
from tenants.access import principal_of_user
from tests.sessions_app.conftest import serve
from tests.sessions_app.stage import say

pytestmark = pytest.mark.django_db(transaction=True)


def ask(session: Session, principal, text: str) -> str:
    """Send a message and return the agent's answer."""
    say(session, principal, text)
    serve(session.pk)
    answers = session.events.filter(type=SessionEvent.Type.AGENT_MESSAGE)
    return answers.latest("seq").payload["text"]


def test_an_agent_remembers_in_another_session_and_another_agent_does_not(
    workspace, owner, agent, monkeypatch
):
    from tests.factories import agent as another

    monkeypatch.setenv("DEMO_DELAY_SECONDS", "0")
    principal = principal_of_user(owner, workspace.pk)
    first, second, theirs = (
        get_or_create_session(agent=one, session_key=key, created_by_id=owner.pk)[0]
        for one, key in ((agent, "a"), (agent, "b"), (another(workspace), "c"))
    )
    ask(first, principal, "Remember that the office closes at six on Fridays")

    version = MemoryVersion.objects.get()
    call = ToolExecution.objects.get(session=first)
    assert (call.name, call.state) == ("memory_store", "completed")
    assert (version.session_id, version.run_id) == (first.pk, call.run_id)
    assert version.call_id == call.tool_use_id
    assert MemoryEntry.objects.get().agent == agent

    question = "What do you know about the office?"
    assert "closes at six" in ask(second, principal, question)
    assert "closes at six" not in ask(theirs, principal, question)
