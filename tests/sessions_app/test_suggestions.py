"""Tests that every suggested prompt succeeds from an empty chat, without a model."""

from __future__ import annotations

import pytest

from agents.examples import EXAMPLES, suggestions
from agents.models import Agent
from sessions_app.accept import accept_event
from sessions_app.models import Session, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import say
from tools_app.web import Page

SUGGESTED = [
    (example.name, text) for example in EXAMPLES for text in suggestions(example.description)
]


def allow_all(session: Session, principal) -> None:
    """Allow every call that waits for an approval, as a person would."""
    for waiting in ToolExecution.objects.filter(session=session, state="awaiting_approval"):
        payload = {"tool_use_id": waiting.tool_use_id, "decision": "allow"}
        accept_event(
            principal,
            session.pk,
            type=SessionEvent.Type.USER_TOOL_CONFIRMATION,
            payload=payload,
        )
        serve(session.pk)


# Tools that write run on a connection of their own.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("name", "text"), SUGGESTED)
def test_each_suggestion_succeeds_from_an_empty_chat(
    name, text, workspace, owner, principal, monkeypatch
):
    page = Page(
        url="https://a.example/",
        content_type="text/html",
        charset="utf-8",
        content=b"<p>Databases.</p>",
        cut=False,
    )
    monkeypatch.setattr("tools_app.builtin.web.fetch", lambda *args, **options: page)
    agent = Agent.objects.for_workspace(workspace.pk).get(current__name=name)
    session, _ = get_or_create_session(agent=agent, created_by_id=owner.pk)

    say(session, principal, text)
    serve(session.pk)
    allow_all(session, principal)

    answer = newest(session, "agent.message").payload["text"]
    states = set(ToolExecution.objects.filter(session=session).values_list("state", flat=True))
    assert states <= {"completed"}, answer
    assert "I didn't understand" not in answer
    assert "failed" not in answer
    session.refresh_from_db()
    assert session.status == "idle"
