"""Tests of what the command palette finds by name."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from memory.documents import write_entry
from memory.ownership import Reader, owner_within, person
from sessions_app.models import Session
from sessions_app.sessions import get_or_create_session
from tenants.pages.navigation import RESULTS
from tests.conftest import add_member
from tests.statements import recorded_statements


def names_in(client: Client, words: str) -> list[str]:
    page = client.get("/palette/", {"q": words}).text
    return re.findall(r'<span class="found-name">([^<]+)', page)


@pytest.fixture
def session_and_documents(session: Session, workspace, owner) -> Session:
    Session.objects.filter(pk=session.pk).update(title="The red kettle", last_seq=1)
    reader = Reader(workspace_id=workspace.pk, user_id=owner.pk)
    for scope, path in [("workspace", "notes/kettle.md"), ("user", "my/kettle.md")]:
        write_entry(
            owner=owner_within(reader, scope), path=path, content="Red.", author=person(owner.pk)
        )
    return session


def test_chats_agents_and_documents_are_found_by_the_words_of_their_name(
    browser_client, session_and_documents
):
    agent = str(session_and_documents.agent)

    assert names_in(browser_client, "KETTLE red") == ["The red kettle"]
    assert names_in(browser_client, "kettle") == [
        "The red kettle",
        "my/kettle.md",
        "notes/kettle.md",
    ]
    assert names_in(browser_client, agent[:4]) == [f"Chat with {agent}"]
    assert names_in(browser_client, "") == []


def test_another_persons_documents_are_not_found(workspace, session_and_documents):
    viewer = Client()
    viewer.force_login(add_member(workspace, "viewer"))

    assert names_in(viewer, "kettle") == ["The red kettle", "notes/kettle.md"]
    assert names_in(viewer, str(session_and_documents.agent)) == []


def test_a_common_word_is_searched_in_the_newest_sessions_and_a_rare_one_by_index(
    browser_client, agent, monkeypatch
):
    monkeypatch.setattr("tenants.pages.navigation.FIRST_SESSIONS", 8)
    for number in range(10):
        made, _ = get_or_create_session(agent=agent, title=f"Kettle {number}")
        Session.objects.filter(pk=made.pk).update(last_seq=1)

    with recorded_statements() as common:
        assert len(names_in(browser_client, "kettle")) == RESULTS
    with recorded_statements() as rare:
        assert names_in(browser_client, "kettle 0") == ["Kettle 0"]

    assert not [one for one in common if "title_grams" in one]
    assert [one for one in rare if "title_grams" in one]
