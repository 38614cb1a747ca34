"""The page on which a conversation begins."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from django.test import Client

from agents.definitions import create_agent
from agents.models import Agent
from agents.pages.agents import summary_of
from sessions_app.models import Run, Session, SessionEvent
from tests.conftest import add_member


def typed(agent: Agent | None, **changed: str) -> dict[str, str]:
    return {
        "agent": str(agent.pk if agent else uuid4()),
        "text": "List the files",
        "once": str(uuid4()),
        **changed,
    }


def chosen(page: str) -> str:
    found = re.search(r'data-name="([^"]+)" checked', page)
    assert found
    return found[1]


def test_each_agent_is_a_card_with_what_one_could_say_first(browser_client, workspace):
    page = browser_client.get("/chat/").text

    for name in ("Concierge", "Researcher", "Coder"):
        assert f'<span class="card-name">{name}</span>' in page
    assert page.count('class="suggestion"') == 9
    assert (
        'value="Write &quot;print(sum(range(101)))&quot; to sum.py and then run python3 sum.py"'
        in page
    )
    assert "Try:" not in page
    assert chosen(page) == "Concierge"


def test_the_first_message_makes_a_session_and_opens_it(browser_client, agent, owner):
    answer = browser_client.post("/chat/", typed(agent))

    session = Session.objects.get()
    assert answer.headers["Location"] == f"/chat/{session.pk}/"
    assert (session.agent, session.title, session.created_by) == (agent, "List the files", owner)
    assert session.events.get().payload["text"] == "List the files"
    assert Run.objects.get().message_seqs == [1]


def test_a_form_sent_twice_says_it_once(browser_client, agent):
    form = typed(agent)
    first = browser_client.post("/chat/", form)
    second = browser_client.post("/chat/", form)

    assert first.headers["Location"] == second.headers["Location"]
    assert SessionEvent.objects.count() == 1


def test_the_same_form_with_another_text_begins_another_session(browser_client, agent):
    form = typed(agent)
    browser_client.post("/chat/", form)
    browser_client.post("/chat/", {**form, "text": "Count to 5"})

    assert sorted(Session.objects.values_list("title", flat=True)) == [
        "Count to 5",
        "List the files",
    ]


@pytest.mark.parametrize("text", ["", "   \r\n "])
def test_nothing_is_not_sent(browser_client, agent, text):
    page = browser_client.post("/chat/", typed(agent, text=text)).text

    assert "Write a message first." in page
    assert not Session.objects.exists()


def test_an_agent_that_is_not_there_is_not_talked_to(browser_client, foreign_workspace):
    theirs = create_agent(workspace_id=foreign_workspace.pk, fields={"name": "Theirs"})

    assert browser_client.post("/chat/", typed(theirs)).status_code == 404
    assert browser_client.post("/chat/", typed(None)).status_code == 404
    assert "Theirs" not in browser_client.get("/chat/").text


def test_who_may_only_read_sees_the_agents_and_says_nothing(workspace, agent):
    client = Client()
    client.force_login(add_member(workspace, "viewer"))
    page = client.get("/chat/").text

    assert "Concierge" in page
    assert "<textarea" not in page
    assert "Chatting with agents requires the builder role." in page
    assert 'class="suggestion"' not in page
    assert client.post("/chat/", typed(agent)).status_code == 403
    assert not Session.objects.exists()


def test_the_agent_of_the_last_talk_is_chosen_unless_the_address_names_one(browser_client, agent):
    browser_client.post("/chat/", typed(agent))
    coder = Agent.objects.get(current__name="Coder")

    page = browser_client.get("/chat/").text
    assert chosen(page) == "Tester"
    assert "List the files" in page
    assert chosen(browser_client.get(f"/chat/?agent={coder.pk}").text) == "Coder"
    assert chosen(browser_client.get("/chat/?agent=nonsense").text) == "Tester"


def test_the_number_of_queries_does_not_grow(
    browser_client, workspace, agent, django_assert_max_num_queries
):
    for number in range(12):
        create_agent(workspace_id=workspace.pk, fields={"name": f"Agent {number}"})
        browser_client.post("/chat/", typed(agent, text=f"Talk {number}"))

    with django_assert_max_num_queries(10):
        browser_client.get("/chat/")


def test_a_summary_leaves_the_suggestions_out():
    assert summary_of("Does this.\nAnd that.\n\nTry: One\n  Try: Two") == "Does this. And that."


def test_a_recent_session_says_what_it_is_doing_as_every_other_list_does(browser_client, agent):
    browser_client.post("/chat/", typed(agent))
    Session.objects.update(status=Session.Status.REQUIRES_ACTION)

    page = browser_client.get("/chat/").text

    assert '<span class="state is-waiting"><span class="sr-only">Needs you</span></span>' in page


def test_many_agents_can_be_narrowed_and_few_need_no_field_for_it(browser_client, workspace):
    assert 'data-island="filter"' not in browser_client.get("/chat/").text
    for nth in range(10):
        create_agent(workspace_id=workspace.pk, fields={"name": f"Agent {nth}"})

    for url in ("/chat/", "/agents/"):
        assert 'data-island="filter"' in browser_client.get(url).text
