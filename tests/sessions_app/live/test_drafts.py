"""Tests of drafts: unstored text is kept, and a stale writer stores nothing."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import OperationalError

from sessions_app.lanes import run_queue
from sessions_app.live import drafts
from sessions_app.live.drafts import AnswerDraft, DraftPublisher, DraftWriter
from sessions_app.log.writer import NewEvent
from sessions_app.models import Draft, Session, SessionEvent
from tests.sessions_app.conftest import OWNER


@pytest.fixture
def claim(session):
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "hi"})
    run_queue.accept(session.pk, message)
    return run_queue.claim(session.pk, OWNER)


@pytest.fixture
def publisher(monkeypatch):
    """Return a publisher that works only when the test flushes it."""
    monkeypatch.setattr(DraftPublisher, "_run", lambda self: None)
    return DraftPublisher()


@pytest.fixture
def sent(monkeypatch):
    deltas: list = []
    monkeypatch.setattr(drafts, "publish_deltas", deltas.extend)
    return deltas


def writer_of(publisher, claim) -> DraftWriter:
    return draft_of(publisher, claim).text


def draft_of(publisher, claim) -> AnswerDraft:
    draft = AnswerDraft(claim, uuid4(), uuid4())
    publisher._drafts.add(draft)
    return draft


def test_text_is_stored_and_sent_in_order_with_offsets_in_code_points(
    publisher, claim, sent, session
):
    writer = writer_of(publisher, claim)
    for text in ("🚂 one ", "two"):
        writer.add(text)
        publisher.flush()
    publisher.flush()

    draft = Draft.objects.get()
    assert (draft.text, draft.event_id) == ("🚂 one two", writer.event_id)
    assert [(d.offset, d.text) for d in sent] == [(0, "🚂 one "), (6, "two")]


def test_text_that_could_not_be_stored_is_stored_the_next_time(publisher, claim, sent, monkeypatch):
    writer = writer_of(publisher, claim)
    writer.add("one ")
    publisher.flush()
    writer.add("two ")
    with monkeypatch.context() as broken:
        broken.setattr(drafts, "rows", lambda *_: (_ for _ in ()).throw(OperationalError("gone")))
        with pytest.raises(OperationalError):
            publisher.flush()
    writer.add("three")
    publisher.flush()

    assert Draft.objects.get().text == "one two three"
    assert "".join(d.text for d in sent) == "one two three"


def test_a_flush_whose_response_was_lost_can_be_repeated(publisher, claim, sent):
    writer = writer_of(publisher, claim)
    writer.add("one ")
    publisher.flush()
    writer.stored = 0
    writer.add("two")
    publisher.flush()

    assert Draft.objects.get().text == "one two"


def test_a_draft_lost_in_a_database_crash_is_written_again(publisher, claim, sent):
    writer = writer_of(publisher, claim)
    writer.add("one ")
    publisher.flush()
    Draft.objects.all().delete()
    writer.add("two")
    publisher.flush()
    publisher.flush()

    assert Draft.objects.get().text == "one two"


def test_a_stale_writer_stores_and_sends_nothing(publisher, claim, sent):
    writer = writer_of(publisher, claim)
    Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
    run_queue.reap()
    writer.add("too late")
    publisher.flush()

    assert not Draft.objects.exists()
    assert sent == []


def test_thinking_is_the_draft_until_the_text_begins(publisher, claim, sent):
    draft = draft_of(publisher, claim)
    draft.thinking.add("Let me ")
    publisher.flush()
    draft.thinking.add("see")
    publisher.flush()
    stored = Draft.objects.get()
    assert (stored.kind, stored.text, stored.event_id) == (
        "thinking", "Let me see", draft.thinking.event_id,
    )  # fmt: skip

    draft.text.add("It is")
    draft.thinking.add(" and more")
    publisher.flush()
    stored = Draft.objects.get()
    assert (stored.kind, stored.text, stored.event_id) == ("text", "It is", draft.text.event_id)
    assert [(d.kind, d.offset, d.text) for d in sent] == [
        ("thinking", 0, "Let me "),
        ("thinking", 7, "see"),
        ("text", 0, "It is"),
    ]
