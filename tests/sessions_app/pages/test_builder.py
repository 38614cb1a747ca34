"""Tests of the agents page and the builder page, without scripts."""

from __future__ import annotations

import pytest
from django.test import Client

from agents import drafts
from agents.canvas.revisions import Author
from agents.models import Agent
from sessions_app.builder import create_draft
from sessions_app.models import Session
from tenants.access import principal_of_user
from tests.conftest import add_member
from tests.factories import agent as make_agent
from tools_app.publishing import propose_rules

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(workspace):
    return make_agent(workspace)


def at(agent, door=""):
    return f"/agents/{agent.pk}/build/{door}"


def form_of(agent, **changes):
    drafted = drafts.read(agent)
    fields = {**drafted.fields, **drafted.fields["limits"], "revision": drafted.row.revision}
    given = {name: value for name, value in fields.items() if not isinstance(value, (dict, list))}
    return {name: "" if value is None else value for name, value in (given | changes).items()}


def test_the_list_names_agents_and_drafts_but_not_the_builder(browser_client, owner, workspace):
    create_draft(principal_of_user(owner, workspace.pk), "Half done")
    page = browser_client.get("/agents/").content.decode()
    assert "Half done" in page
    assert "Concierge" in page
    assert ">Builder<" not in page


def test_a_description_creates_a_draft_and_opens_its_page(browser_client, workspace):
    wish = "Make an agent that answers billing questions"
    answer = browser_client.post("/agents/new/", {"text": wish}, follow=True)
    made = Agent.objects.get(is_draft=True)
    assert answer.redirect_chain == [(at(made), 302)]
    page = answer.content.decode()
    assert wish in page
    assert "not published" in page
    assert Session.objects.get(about=made).agent.role == "builder"


@pytest.mark.parametrize("tab", ["configure", "canvas", "policy", "preview"])
def test_every_tab_opens(browser_client, agent, tab):
    propose_rules(agent, {"ask": ["write"]}, author=Author())
    page = browser_client.get(f"{at(agent)}?tab={tab}")
    assert page.status_code == 200
    assert browser_client.get(f"{at(agent, 'side/')}?tab={tab}").status_code == 200


def test_the_form_changes_the_draft_and_the_change_can_be_undone(browser_client, agent):
    was = agent.current.name
    saved = browser_client.post(at(agent, "save/"), form_of(agent, name="Other"))
    assert saved.status_code == 302
    assert drafts.read(agent).row.fields == {"name": "Other"}
    change = agent.draft_changes.get()
    browser_client.post(at(agent, "undo/"), {"change": change.pk})
    assert drafts.read(agent).fields["name"] == was


def test_a_stale_form_keeps_its_text_and_changes_nothing(browser_client, agent):
    stale = form_of(agent, name="Mine")
    drafts.change(agent, {"name": "Theirs"}, author=Author())
    refused = browser_client.post(at(agent, "save/"), stale)
    assert refused.status_code == 400
    assert 'value="Mine"' in refused.content.decode()
    assert drafts.read(agent).fields["name"] == "Theirs"


def test_an_invalid_field_shows_its_error(browser_client, agent):
    refused = browser_client.post(at(agent, "save/"), form_of(agent, max_seconds=0))
    assert refused.status_code == 400
    assert "field-error" in refused.content.decode()


def test_a_draft_is_published_and_discarded_by_the_buttons(browser_client, owner, workspace):
    agent = create_draft(principal_of_user(owner, workspace.pk), "New")
    browser_client.post(at(agent, "publish/"), {"revision": 0})
    agent.refresh_from_db()
    assert (agent.is_draft, agent.current.number) == (False, 1)
    drafts.change(agent, {"name": "Other"}, author=Author())
    browser_client.post(at(agent, "discard/"))
    assert drafts.read(agent).row.is_empty


def test_a_viewer_can_read_the_list_but_not_build(workspace, agent):
    viewer = Client()
    viewer.force_login(add_member(workspace, "viewer"))
    assert viewer.get("/agents/").status_code == 200
    assert viewer.get(at(agent)).status_code == 403
    assert viewer.get("/agents/new/").status_code == 403


def test_the_page_asks_the_database_a_bounded_number_of_times(
    browser_client, agent, django_assert_max_num_queries
):
    browser_client.get(at(agent))
    for number in range(12):
        drafts.change(agent, {"name": f"Name {number}"}, author=Author())
    with django_assert_max_num_queries(45):
        browser_client.get(at(agent))
