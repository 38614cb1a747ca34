"""Tests that thinking stays out of what others get, unless it is asked for."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.test import AsyncClient

from sessions_app.log.transfer import export, export_markdown, import_session
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import SessionEvent
from sessions_app.sessions import share_session

TYPE = SessionEvent.Type


@pytest.fixture
def talk(session):
    events = [
        NewEvent(type=TYPE.USER_MESSAGE, payload={"text": "Why?", "attachments": []}),
        NewEvent(
            type=TYPE.AGENT_THINKING, payload={"text": "A secret thought", "provider_state": "s"}
        ),
        NewEvent(type=TYPE.AGENT_MESSAGE, payload={"text": "Because."}),
    ]
    append_events(session.pk, events)
    session.refresh_from_db()
    return session


def test_an_export_has_thinking_only_if_it_is_asked_for(talk):
    plain, whole = (b"".join(export(talk, thinking=thinking)) for thinking in (False, True))

    assert b"secret thought" not in plain
    assert b"Because." in plain
    assert b"secret thought" in whole


def test_an_export_with_and_without_thinking_can_be_imported(talk, agent):
    for thinking in (False, True):
        lines = iter(b"".join(export(talk, thinking=thinking)).splitlines())
        copy = import_session(agent, lines)
        has_any = copy.events.filter(type=TYPE.AGENT_THINKING).exists()
        assert has_any is thinking


def test_shared_chats_documents_and_messages_have_no_thinking(talk, client, api):
    share_session(talk)
    talk.refresh_from_db()

    assert "secret" not in client.get(f"/shared/{talk.share_token}/").text
    assert "secret" not in "".join(export_markdown(talk))
    listed = api.get(f"/api/v1/sessions/{talk.pk}/messages/").json()["results"]
    assert [one["text"] for one in listed] == ["Why?", "Because."]
    events = api.get(f"/api/v1/sessions/{talk.pk}/events/").content
    assert b"secret thought" in events
    assert orjson.loads(events)


def test_the_chat_folds_thinking_before_its_answer(talk, browser_client):
    page = browser_client.get(f"/chat/{talk.pk}/").text

    assert page.index("<summary><span>Thoughts</span>") < page.index("A secret thought")
    assert page.index("A secret thought") < page.index("Because.")


async def test_the_export_over_rest_has_thinking_only_if_it_is_asked_for(async_db, talk, secret):
    client: Any = AsyncClient()
    key = {"x-api-key": secret}
    address = f"/api/v1/sessions/{talk.pk}/export/"
    plain, whole = [
        b"".join([part async for part in (await client.get(where, headers=key)).streaming_content])
        for where in (address, f"{address}?thinking=true")
    ]

    assert b"Because." in plain
    assert b"secret thought" not in plain
    assert b"secret thought" in whole
