"""What the command palette finds by its name."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from memory.documents import write_entry
from memory.ownership import Reader, owner_within, person
from sessions_app.models import Session
from tests.conftest import add_member


def names_in(client: Client, words: str) -> list[str]:
    page = client.get("/palette/", {"q": words}).text
    return re.findall(r'<span class="found-name">([^<]+)', page)


@pytest.fixture
def furnished(session: Session, workspace, owner) -> Session:
    Session.objects.filter(pk=session.pk).update(title="The red kettle", last_seq=1)
    reader = Reader(workspace_id=workspace.pk, user_id=owner.pk)
    for scope, path in [("workspace", "notes/kettle.md"), ("user", "my/kettle.md")]:
        write_entry(
            owner=owner_within(reader, scope), path=path, content="Red.", author=person(owner.pk)
        )
    return session


def test_a_chat_an_agent_and_a_document_are_found_by_every_word_of_a_name(
    browser_client, furnished
):
    agent = str(furnished.agent)

    assert names_in(browser_client, "KETTLE red") == ["The red kettle"]
    assert names_in(browser_client, "kettle") == [
        "The red kettle",
        "my/kettle.md",
        "notes/kettle.md",
    ]
    assert names_in(browser_client, agent[:4]) == [f"Chat with {agent}"]
    assert names_in(browser_client, "") == []


def test_nobody_finds_what_somebody_keeps_for_themselves(workspace, furnished):
    viewer = Client()
    viewer.force_login(add_member(workspace, "viewer"))

    assert names_in(viewer, "kettle") == ["The red kettle", "notes/kettle.md"]
    assert names_in(viewer, str(furnished.agent)) == []
