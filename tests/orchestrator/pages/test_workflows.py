"""Tests of the pages of workflows without scripts: list, start, detail, actions."""

from __future__ import annotations

import pytest

from orchestrator.models import Workflow
from tests.conftest import add_member
from tests.orchestrator.conftest import now, serve

pytestmark = pytest.mark.django_db


@pytest.fixture
def asks(define):
    define(
        lambda self, event, step: [
            step.do("look", lambda: {"found": "<b>bold</b>"}),
            step.wait_for_approval("ok", title="Go on?", message="<script>x</script>"),
        ][0],
        name="asks",
    )


def test_the_list_offers_definitions_and_shows_workflows(browser_client, begin, asks):
    begin(name="asks")
    serve()
    page = browser_client.get("/workflows/").content.decode()

    assert "Needs you" in page
    assert "An agent drafts a digest" in page


def test_home_shows_the_newest_workflows(browser_client, begin, asks):
    made = begin(name="asks")

    assert f'href="/workflows/{made.pk}/"' in browser_client.get("/").content.decode()


def test_the_list_is_filtered(browser_client, begin, asks):
    begin(name="asks")

    assert "asks" in browser_client.get("/workflows/?status=queued&name=asks").content.decode()
    empty = browser_client.get("/workflows/?status=complete").content.decode()
    assert "No matching workflows" in empty
    assert browser_client.get("/workflows/?status=%00&page=x").status_code == 200


def test_a_form_that_is_sent_twice_starts_one_workflow(browser_client):
    page = browser_client.get("/workflows/new/?name=digest").content.decode()
    assert "What is new in this workspace" in page
    form = {"name": "digest", "once": "form-1", "topic": "Trains", "agent": "Concierge"}
    first = browser_client.post("/workflows/new/", form)
    second = browser_client.post("/workflows/new/", form)

    made = Workflow.objects.get()
    assert first.url == second.url == f"/workflows/{made.pk}/"
    assert made.params == {"topic": "Trains", "agent": "Concierge"}
    assert made.created_by.email == "owner@example.com"


def test_an_invalid_form_shows_the_reason(browser_client):
    form = {"name": "panel", "once": "x", "question": "q", "agents": "A\nB", "pause_seconds": "-1"}
    page = browser_client.post("/workflows/new/", form)

    assert page.status_code == 200
    assert "pause_seconds" in page.content.decode()
    assert not Workflow.objects.exists()


def test_a_workflow_is_shown_with_its_steps_and_escaped(browser_client, begin, asks):
    made = begin(name="asks")
    serve()
    page = browser_client.get(f"/workflows/{made.pk}/").content.decode()

    assert "Go on?" in page
    assert "<script>x" not in page
    assert "<b>bold" not in page
    part = browser_client.get(f"/workflows/{made.pk}/?part=body").content.decode()
    assert part.lstrip().startswith('<div class="flow"')


def test_the_buttons_approve_pause_resume_terminate_and_restart(browser_client, begin, asks):
    made = begin(name="asks")
    serve()
    for act, status in [
        ("pause", "paused"),
        ("resume", "waiting_approval"),
        ("approve", "queued"),
        ("terminate", "terminated"),
        ("restart", "queued"),
    ]:
        answer = browser_client.post(f"/workflows/{made.pk}/{act}/", {"note": "n"})
        assert answer.url == f"/workflows/{made.pk}/"
        assert now(made).status == status, act
    assert browser_client.post(f"/workflows/{made.pk}/dance/").status_code == 404


def test_a_late_action_is_explained(browser_client, begin, asks):
    made = begin(name="asks")
    answer = browser_client.post(f"/workflows/{made.pk}/approve/", follow=True)

    assert "No approval is pending here" in answer.content.decode()


def test_a_viewer_can_see_but_not_act(client, workspace, begin, asks):
    made = begin(name="asks")
    serve()
    client.force_login(add_member(workspace, "viewer"))
    page = client.get(f"/workflows/{made.pk}/").content.decode()

    assert "Go on?" in page
    assert "Approve" not in page
    assert client.post(f"/workflows/{made.pk}/approve/").status_code == 403
    assert client.get("/workflows/new/").status_code == 403


def test_the_number_of_queries_does_not_grow_with_the_steps(
    browser_client, begin, define, django_assert_max_num_queries
):
    define(lambda self, event, step: [step.do("s", lambda: 1) for _ in range(30)])
    made = begin()
    serve()
    with django_assert_max_num_queries(20):
        browser_client.get(f"/workflows/{made.pk}/")
