"""Tests of the log: gap-free, append-only, fenced."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from core.exceptions import NotFound, StaleEpoch
from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent

E = SessionEvent.Type
#: The columns that change when a run takes an event.
CHANGED_WHEN_TAKEN = {"processed_at", "processed_run_id"}


def note(text: str = "hello") -> NewEvent:
    return NewEvent(type=E.RESOURCE_ATTACHED, payload={"text": text})


@pytest.mark.django_db(transaction=True)
def test_concurrent_appends_leave_no_gap_in_the_sequence(session):
    def append_in_thread(number: int) -> None:
        try:
            append_events(session.pk, [note(str(number)), note()])
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(append_in_thread, range(40)))

    assert list(session.events.order_by("seq").values_list("seq", flat=True)) == [*range(1, 81)]
    session.refresh_from_db()
    assert session.last_seq == 80


def test_an_unknown_session_is_not_found(db):
    with pytest.raises(NotFound):
        append_events(uuid4(), [note()])


@pytest.mark.parametrize(
    "change",
    [
        lambda events: events.update(seq=9),
        lambda events: events.update(payload={}),
        lambda events: events.update(created_by=uuid4()),
        lambda events: events.delete(),
    ],
)
def test_a_written_event_cannot_be_changed(session, change):
    append_events(session.pk, [NewEvent(type=E.RESOURCE_ATTACHED, payload={})])

    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        change(session.events.all())


@pytest.mark.parametrize(
    "column", sorted({f.attname for f in SessionEvent._meta.concrete_fields} - CHANGED_WHEN_TAKEN)
)
def test_taking_an_event_changes_no_other_column(session, column):
    append_events(session.pk, [note()])
    other = {"seq": 9, "type": E.ERROR, "payload": {}, "dedupe_key": "other"}
    value = other.get(column, timezone.now() if column == "created_at" else uuid4())

    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        session.events.update(processed_at=timezone.now(), **{column: value})


def test_an_event_is_taken_once(session):
    append_events(session.pk, [note()])
    events = session.events.all()
    events.update(processed_at="2026-01-01T00:00:00Z")

    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        events.update(processed_at="2026-02-02T00:00:00Z")


def test_only_one_sql_function_and_two_copies_insert_into_the_log():
    from pathlib import Path

    root = Path(run_queue.__file__).parent.parent
    places = [
        (path.name, path.read_text().lower().count("insert into session_messages"))
        for path in [*root.rglob("*.py"), *root.rglob("*.sql")]
        # A migration contains an older version of the function.
        if path.parent.name != "migrations"
    ]
    assert sorted(p for p in places if p[1]) == [("lanes.sql", 1), ("writer.py", 2)]


def test_a_stale_epoch_cannot_write(session):
    Session.objects.filter(pk=session.pk).update(lane_epoch=3)

    with pytest.raises(StaleEpoch), transaction.atomic():
        append_events(session.pk, [note()], epoch=2)

    append_events(session.pk, [note()], epoch=3)
    assert session.events.count() == 1


def test_characters_that_postgresql_cannot_store_are_replaced(session):
    append_events(session.pk, [note("a\0b\ud800c 🚂 \\u0000")])

    assert session.events.get().payload["text"] == "a\ufffdb\ufffdc 🚂 \\u0000"
