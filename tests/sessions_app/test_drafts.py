"""Drafts: nothing is forgotten before it is stored, and a stale writer stores nothing."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import OperationalError

from sessions_app import drafts, lanes
from sessions_app.drafts import DraftPump, DraftWriter
from sessions_app.log import NewEvent
from sessions_app.models import Draft, Session, SessionEvent
from tests.sessions_app.conftest import OWNER


@pytest.fixture
def claim(session):
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "hi"})
    lanes.accept(session.pk, message)
    return lanes.claim(session.pk, OWNER)


@pytest.fixture
def pump(monkeypatch):
    """A pump that works only when the test says so."""
    monkeypatch.setattr(DraftPump, "_work", lambda self: None)
    return DraftPump()


@pytest.fixture
def sent(monkeypatch):
    deltas: list = []
    monkeypatch.setattr(drafts, "send_deltas", deltas.extend)
    return deltas


def writer_of(pump, claim) -> DraftWriter:
    writer = DraftWriter(claim, uuid4())
    pump._writers.add(writer)
    return writer


def test_text_is_stored_and_sent_in_order_with_offsets_in_code_points(pump, claim, sent, session):
    writer = writer_of(pump, claim)
    for text in ("🚂 one ", "two"):
        writer.add(text)
        pump.flush()
    pump.flush()

    draft = Draft.objects.get()
    assert (draft.text, draft.event_id) == ("🚂 one two", writer.event_id)
    assert [(d.offset, d.text) for d in sent] == [(0, "🚂 one "), (6, "two")]


def test_text_that_could_not_be_stored_is_stored_the_next_time(pump, claim, sent, monkeypatch):
    writer = writer_of(pump, claim)
    writer.add("one ")
    pump.flush()
    writer.add("two ")
    with monkeypatch.context() as broken:
        broken.setattr(drafts, "rows", lambda *_: (_ for _ in ()).throw(OperationalError("gone")))
        with pytest.raises(OperationalError):
            pump.flush()
    writer.add("three")
    pump.flush()

    assert Draft.objects.get().text == "one two three"
    assert "".join(d.text for d in sent) == "one two three"


def test_a_flush_whose_answer_was_lost_changes_nothing_when_repeated(pump, claim, sent):
    writer = writer_of(pump, claim)
    writer.add("one ")
    pump.flush()
    writer.stored = 0
    writer.add("two")
    pump.flush()

    assert Draft.objects.get().text == "one two"


def test_a_draft_that_a_crash_of_the_database_took_is_written_anew(pump, claim, sent):
    writer = writer_of(pump, claim)
    writer.add("one ")
    pump.flush()
    Draft.objects.all().delete()
    writer.add("two")
    pump.flush()
    pump.flush()

    assert Draft.objects.get().text == "one two"


def test_a_stale_writer_stores_and_sends_nothing(pump, claim, sent):
    writer = writer_of(pump, claim)
    Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
    lanes.reap()
    writer.add("too late")
    pump.flush()

    assert not Draft.objects.exists()
    assert sent == []
