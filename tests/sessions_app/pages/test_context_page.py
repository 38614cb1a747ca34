"""Tests of the context as a page and as a panel, with compaction and undo."""

from __future__ import annotations

import pytest

from sessions_app.models import ContextSnapshot, Run
from tests.sessions_app.conftest import agent, principal, session
from tests.sessions_app.long_talk import give_past, serve

__all__ = ["agent", "principal", "session"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    monkeypatch.setenv("DEMO_DELAY_SECONDS", "0")


def test_a_compaction_is_started_shown_and_undone_without_scripts(browser_client, session):
    give_past(session, 30, "the file notes/plan.md <b>")
    chat, context = f"/chat/{session.pk}/", f"/chat/{session.pk}/context/"
    assert context in browser_client.get(chat).content.decode()

    answer = browser_client.post(f"/chat/{session.pk}/compact/")
    assert (answer.status_code, answer["Location"]) == (302, chat)
    serve(session)

    snapshot = ContextSnapshot.objects.get()
    page = browser_client.get(context).content.decode()
    assert "Summary of earlier messages" in page
    assert "notes/plan.md &lt;b&gt;" in page
    assert "<b>" not in page
    assert "Undo compaction" in page
    panel = browser_client.get(f"{context}?panel=1").content.decode()
    assert panel.startswith('<div class="context"')
    told = browser_client.get(chat).content.decode()
    assert "Context compacted" in told
    assert "View summary" in told

    browser_client.post(f"/chat/{session.pk}/undo/", {"snapshot": snapshot.pk})
    snapshot.refresh_from_db()
    assert snapshot.undone_at
    assert "Compaction undone" in browser_client.get(chat).content.decode()
    again = browser_client.post(f"/chat/{session.pk}/undo/", {"snapshot": snapshot.pk}, follow=True)
    assert "undone already" in again.content.decode()


def test_an_empty_session_has_a_context_too(browser_client, session):
    page = browser_client.get(f"/chat/{session.pk}/context/").content.decode()
    assert "Instructions" in page
    assert "Undo" not in page
    assert not Run.objects.exists()
