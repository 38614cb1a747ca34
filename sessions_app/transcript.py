"""The log as people read it and take it with them: history, search, export, import."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import orjson
from django.contrib.postgres.search import SearchQuery, SearchVector
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.fields.json import KT

from agents.models import Agent
from config.faults import Invalid
from sessions_app.frames import event_body
from sessions_app.imported import read_line
from sessions_app.log import import_events
from sessions_app.models import Session, SessionEvent
from sessions_app.models.session import SessionQuerySet
from sessions_app.outside import note_outside, tell_of_outside
from sessions_app.sessions import get_or_create_session

E = SessionEvent.Type
WORDS = SearchVector(KT("payload__text"), config="english")
SPOKEN = [E.USER_MESSAGE, E.AGENT_MESSAGE]
MOST_EVENTS = 100_000


def mentioning(sessions: SessionQuerySet, words: str) -> SessionQuerySet:
    """Sessions whose title or messages contain these words."""
    spoken = SessionEvent.objects.filter(session=OuterRef("pk"), type__in=SPOKEN)
    found = spoken.annotate(words=WORDS).filter(
        words=SearchQuery(words, search_type="websearch", config="english")
    )
    return sessions.filter(Exists(found)) | sessions.filter(title__icontains=words)


def export(session: Session) -> Iterator[bytes]:
    """One event a line, all of them, without holding them all."""
    for event in session.events.order_by("seq").iterator(chunk_size=500):
        yield orjson.dumps(event_body(event)) + b"\n"


@transaction.atomic
def import_session(
    agent: Agent, lines: Iterator[bytes], *, title: str = "", created_by_id: UUID | None = None
) -> Session:
    """A new session with the events of an export."""
    events = []
    for number, line in enumerate(filter(None, (raw.strip() for raw in lines)), start=1):
        if number > MOST_EVENTS:
            raise Invalid(f"An import has at most {MOST_EVENTS:,} events.")
        events.append(read_line(number, line))
    session, _ = get_or_create_session(
        agent=agent, title=title or "Imported session", created_by_id=created_by_id
    )
    import_events(session.pk, events, created_by_id)
    if tell_of_outside(events):
        note_outside(session.pk)
    session.refresh_from_db()
    return session
