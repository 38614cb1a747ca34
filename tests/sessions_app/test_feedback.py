"""Tests of rating answers, and of who reads the ratings."""

from __future__ import annotations

import pytest

from agents.providers.base import TextDelta
from sessions_app.accept import accept_event
from sessions_app.models import Feedback, SessionEvent
from tests.conftest import add_member
from tests.sessions_app.conftest import serve


@pytest.fixture
def answer(session, principal, script) -> SessionEvent:
    script([TextDelta(text="So.")])
    accept_event(principal, session.pk, type="user.message", payload={"text": "why?"})
    serve(session.pk)
    return session.events.get(type="agent.message")


def test_an_answer_has_one_rating_per_person_that_can_be_changed_and_withdrawn(
    api, session, answer, owner
):
    path = f"/api/v1/sessions/{session.pk}/feedback/{answer.seq}/"
    assert api.put(path, {"rating": 1}, format="json").status_code == 200
    changed = api.put(path, {"rating": -1, "reason": "Too short"}, format="json")
    assert changed.json()["reason"] == "Too short"
    rated = Feedback.objects.get()
    assert (rated.rating, rated.reason, rated.person) == (-1, "Too short", owner)

    listed = api.get("/api/v1/feedback/?rating=-1").json()["results"]
    assert [(one["session"], one["seq"]) for one in listed] == [(str(session.pk), answer.seq)]
    assert api.get("/api/v1/feedback/?rating=1").json()["results"] == []

    assert api.delete(path).status_code == 204
    assert not Feedback.objects.exists()


def test_only_an_answer_can_be_rated(api, session, answer):
    for seq in (1, 99):
        path = f"/api/v1/sessions/{session.pk}/feedback/{seq}/"
        assert api.put(path, {"rating": 1}, format="json").status_code == 404
    path = f"/api/v1/sessions/{session.pk}/feedback/{answer.seq}/"
    assert api.put(path, {"rating": 2}, format="json").status_code == 400


def test_admins_read_the_page_of_feedback_and_builders_do_not(
    browser_client, workspace, session, answer
):
    Feedback.objects.create(
        workspace=workspace,
        session=session,
        seq=answer.seq,
        person_id=session.created_by_id,
        rating=-1,
        reason="<b>wrong</b>",
    )
    client = browser_client
    page = client.get("/settings/feedback/?rating=bad")
    assert "&lt;b&gt;wrong&lt;/b&gt;" in page.text
    assert "&lt;b&gt;" not in client.get("/settings/feedback/?rating=good").text
    client.force_login(add_member(workspace, "builder"))
    assert client.get("/settings/feedback/").status_code == 403
    assert client.get("/api/v1/feedback/").status_code == 403
