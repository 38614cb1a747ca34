"""Finds messages of one conversation by meaning, with vectors that are made when they are first needed.

A turn stores none. A search adds the vectors of the newest messages that lack one, up to a limit, with
the embedded model, which costs nothing. They are deleted with their session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction

from memory.chunking import chunk
from memory.embedders import DEFAULT, embedder_named
from sessions_app.log import transcript
from sessions_app.models import MessageVector, Session, SessionEvent

#: Messages that one search adds, and pieces of one message.
MOST_ADDED, MOST_PIECES = 500, 8
#: How similar a message must be that shares no word with the query.
LEAST_SIMILAR = 0.4
NEAREST = """
SELECT seq, max(1 - (vector <=> %(query)s::vector)) AS likeness FROM message_vectors
 WHERE workspace_id = %(workspace)s AND session_id = %(session)s AND model = %(model)s
   AND seq < %(before)s AND vector_norm(vector) > 0
 GROUP BY seq HAVING max(1 - (vector <=> %(query)s::vector)) >= %(least)s
 ORDER BY likeness DESC, seq DESC LIMIT %(most)s
"""


def similar_messages(session: Session, query: str, *, before: int, most: int) -> dict[int, float]:
    """Return how similar messages before this one are to the query, by seq, the most similar first."""
    embedder = embedder_named(DEFAULT, workspace_id=session.workspace_id)
    vector = embedder.embed_query(query, {})
    if vector is None:
        return {}
    add_vectors(session, before=before)
    params: dict[str, Any] = {
        "query": f"[{','.join(map(str, vector))}]",
        "workspace": session.workspace_id,
        "session": session.pk,
        "model": embedder.name,
        "before": before,
        "least": LEAST_SIMILAR,
        "most": most,
    }
    with connection.cursor() as cursor:
        cursor.execute(NEAREST, params)
        return {seq: float(likeness) for seq, likeness in cursor.fetchall()}


def add_vectors(session: Session, *, before: int) -> int:
    """Add the vectors of the newest messages that have none. Return how many messages got theirs."""
    embedder = embedder_named(DEFAULT, workspace_id=session.workspace_id)
    known = MessageVector.objects.for_workspace(session.workspace_id).filter(session=session)
    having = known.filter(model=embedder.name).values("seq")
    rows = session.events.filter(type__in=transcript.MESSAGE_TYPES, seq__lt=before)
    # A message that still waits may be edited, and is added when it was read.
    rows = rows.exclude(type=SessionEvent.Type.USER_MESSAGE, processed_at=None)
    missing = list(rows.exclude(seq__in=having).order_by("-seq")[:MOST_ADDED])
    if not missing:
        return 0
    pieces = list(_pieces(session, missing))
    vectors = embedder.embed([text for _, _, text in pieces])
    made = [
        MessageVector(
            workspace_id=session.workspace_id,
            session=session,
            seq=seq,
            position=position,
            model=embedder.name,
            vector=vector,
        )
        for (seq, position, _), vector in zip(pieces, vectors, strict=True)
    ]
    with transaction.atomic():
        if not Session.objects.select_for_update(no_key=True).filter(pk=session.pk).exists():
            return 0
        known.exclude(model=embedder.name).delete()
        MessageVector.objects.bulk_create(made, batch_size=500, ignore_conflicts=True)
    return len(missing)


def _pieces(session: Session, events: Sequence[SessionEvent]) -> list[tuple[int, int, str]]:
    """Return the pieces of these messages in their newest wording; one without text has an empty one."""
    texts = {m.seq: m.text for m in transcript.messages_seen_by_agent(session, events)}
    found: list[tuple[int, int, str]] = []
    for event in events:
        pieces = chunk("", texts.get(event.seq, ""))[:MOST_PIECES]
        found += [(event.seq, nth, piece.text) for nth, piece in enumerate(pieces)]
        if not pieces:
            # Otherwise every search would look at it again.
            found.append((event.seq, 0, "."))
    return found
