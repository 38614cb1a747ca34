"""Tests of the form that sets, changes and removes an outcome, and of its verdicts."""

from __future__ import annotations

import pytest

from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import SessionEvent
from tests.conftest import add_member

STATED = {
    "statement": "A note that customers understand.",
    "criteria": "It names every change.\n\nIt is short.\n",
    "max_returns": "1",
    "grader": "",
}
STORED = {
    "statement": "A note that customers understand.",
    "criteria": ["It names every change.", "It is short."],
    "max_returns": 1,
}


@pytest.fixture
def post(browser_client, session):
    def post(**changed):
        return browser_client.post(f"/sessions/{session.pk}/outcome/", {**STATED, **changed})

    return post


def outcome_of(session):
    session.refresh_from_db()
    return session.outcome


def test_an_outcome_is_set_shown_and_removed(browser_client, session, post):
    assert post().status_code == 302
    assert outcome_of(session) == STORED
    page = browser_client.get(f"/sessions/{session.pk}/outcome/").text
    assert "It names every change.\nIt is short.</textarea>" in page
    assert "Outcome saved. It applies from the next answer on." in page

    assert post(remove="1").status_code == 302
    assert outcome_of(session) is None


def test_a_grader_can_be_chosen_and_is_kept_when_it_is_no_longer_listed(session, post):
    post(grader="demo/demo")
    assert outcome_of(session)["grader"] == {"provider": "demo", "model": "demo"}

    session.outcome = {**STORED, "grader": {"provider": "openai", "model": "gone/away"}}
    session.save(update_fields=["outcome"])
    assert post(grader="openai/gone/away").status_code == 302
    assert outcome_of(session)["grader"] == {"provider": "openai", "model": "gone/away"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"statement": ""}, "This field is required."),
        ({"criteria": " \n "}, "This field is required."),
        ({"criteria": "Short.\nshort."}, "Each criterion must be different."),
        ({"max_returns": "9"}, "less than or equal to 5"),
        ({"grader": "nobody/x"}, "Select a valid choice"),
    ],
)
def test_an_error_is_shown_beside_its_field_and_nothing_is_saved(session, post, changed, said):
    answer = post(**changed)

    assert answer.status_code == 400
    assert said in answer.text
    assert f'id="id_{next(iter(changed))}_error"' in answer.text
    assert outcome_of(session) is None


def test_verdicts_are_listed_newest_first_with_their_criteria(browser_client, session):
    judged = {"status": "not_met", "feedback": "Name the price.", "returned": True, "returns": 1}
    judged |= {"max_returns": 2, "criteria": [{"name": "Short", "met": False, "why": "<b>Long"}]}
    met = {"status": "met", "criteria": [{"name": "Short", "met": True, "why": ""}]}
    type = SessionEvent.Type.OUTCOME_JUDGED
    append_events(session.pk, [NewEvent(type=type, payload=one) for one in (judged, met)])
    page = browser_client.get(f"/sessions/{session.pk}/outcome/").text

    assert page.index("Outcome met") < page.index("sent back 1 of 2: Name the price.")
    assert "&lt;b&gt;Long" in page


def test_a_viewer_sees_the_outcome_but_cannot_change_it(client, workspace, session):
    session.outcome = STORED
    session.save(update_fields=["outcome"])
    client.force_login(add_member(workspace, "viewer"))
    page = client.get(f"/sessions/{session.pk}/outcome/").text

    assert "It names every change." in page
    assert "<textarea" not in page
    assert client.post(f"/sessions/{session.pk}/outcome/", STATED).status_code == 403
    assert outcome_of(session) == STORED
