"""Keeps the chunks of a document in sync with its newest text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from functools import partial
from time import monotonic
from uuid import UUID

import structlog
from django.db import connection, transaction

from core.exceptions import Fault
from core.throttling import embedding_slot
from memory.chunking import Piece, chunk
from memory.embeddings import (
    BATCH,
    add_to_living,
    add_vectors,
    is_local,
    lock_choice,
    missing,
    writers_embedders,
)
from memory.exceptions import ModelUnavailable
from memory.models import MemoryChunk, MemoryEntry

log = structlog.get_logger(__name__)

#: Updates what may change of a chunk whose text stays.
MOVE = """
UPDATE memory_memorychunk c
SET label = n.label, speakers = n.speakers, beside = n.beside, position = n.position
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::int[])
  AS n(id, label, speakers, beside, position)
WHERE c.id = n.id
"""


def index_entry(entry: MemoryEntry, content: str, *, embeds: bool = True) -> None:
    """Update the document's chunks, in the transaction that changed its text.

    A chunk whose text stays keeps its row and its vectors: a line added to a long list costs one
    embedding. A short text gets the vectors of an embedded model here, and is found by its meaning at
    once. A long text and an import are marked, and the supervisor adds their vectors; a remote model
    is called after the commit, but not without `embeds`: then the caller adds all vectors afterwards
    by `embed_missing`. Until then the document is found by its words.
    """
    hidden = entry.never_recall or entry.deleted_at is not None
    pieces = [] if hidden else chunk(entry.path, content)
    fresh = _store(entry, pieces)
    later = False
    for embedder in writers_embedders(entry.workspace_id) if fresh else []:
        if not is_local(embedder):
            if embeds:
                transaction.on_commit(partial(_embed_later, entry.pk, embedder.name))
        elif not embeds or _defers.get() or sum(len(one.text) for one in fresh) > EMBEDDED_AT_ONCE:
            later = True
        else:
            add_vectors(fresh, embedder)
    if later:
        MemoryEntry.objects.filter(pk=entry.pk).update(awaits_vectors=True)


#: Characters that are embedded within the transaction: a few dozen lines, in about 0.2 s.
EMBEDDED_AT_ONCE = 4_000
_defers: ContextVar[bool] = ContextVar("defers_vectors", default=False)


@contextmanager
def vectors_later() -> Iterator[None]:
    """Leave the vectors of everything that is written here to the supervisor."""
    token = _defers.set(True)
    try:
        yield
    finally:
        _defers.reset(token)


#: How long one call of `add_awaited_vectors` goes on with what has waited.
LONGEST_ADDING = 60.0


def add_awaited_vectors() -> int:
    """Embed the chunks of marked documents, one commit per document. Return how many chunks."""
    done, until = 0, monotonic() + LONGEST_ADDING
    marked = MemoryEntry.objects.filter(awaits_vectors=True)
    try:
        while monotonic() < until and (entry := marked.order_by("pk").first()):
            done += _add_awaited(entry)
    except ModelUnavailable as fault:
        log.warning("chunks_not_embedded", why=fault.detail)
    return done


def _add_awaited(entry: MemoryEntry) -> int:
    """Compute without a lock, then store and clear the mark unless the text changed meanwhile."""
    done = 0
    for embedder in writers_embedders(entry.workspace_id):
        while is_local(embedder):
            rows = missing(entry.workspace_id, embedder.name).filter(entry=entry)
            chunks = list(rows.order_by("position")[:BATCH])
            if not chunks:
                break
            done += add_to_living(chunks, embedder)
    with transaction.atomic():
        lock_choice(entry.workspace_id)
        found = MemoryEntry.objects.select_for_update(no_key=True).filter(pk=entry.pk).first()
        models = [one.name for one in writers_embedders(entry.workspace_id) if is_local(one)]
        chunks_of = MemoryChunk.objects.filter(entry=entry)
        if found and not any(chunks_of.exclude(vectors__model=model).exists() for model in models):
            MemoryEntry.objects.filter(pk=entry.pk).update(awaits_vectors=False)
    return done


def _store(entry: MemoryEntry, pieces: Sequence[Piece]) -> list[MemoryChunk]:
    """Write the differences to the stored chunks, and return the new ones."""
    by_text: dict[str, list[MemoryChunk]] = defaultdict(list)
    for row in MemoryChunk.objects.filter(entry=entry).order_by("-position").defer("tsv"):
        by_text[row.text].append(row)
    owner = {name: getattr(entry, name) for name in ("workspace_id", "owner_id", "scope")}
    fresh, moved = [], []
    for position, piece in enumerate(pieces):
        now = {**asdict(piece), "position": position}
        kept = by_text[piece.text].pop() if by_text[piece.text] else None
        if kept is None:
            fresh.append(MemoryChunk(entry=entry, **owner, **now))
        elif any(getattr(kept, name) != value for name, value in now.items()):
            for name, value in now.items():
                setattr(kept, name, value)
            moved.append(kept)
    gone = [row.pk for rows in by_text.values() for row in rows]
    MemoryChunk.objects.filter(pk__in=gone).delete()
    _move(moved)
    return MemoryChunk.objects.bulk_create(fresh)


def _move(chunks: Sequence[MemoryChunk]) -> None:
    columns = ("id", "label", "speakers", "beside", "position")
    with connection.cursor() as cursor:
        cursor.execute(MOVE, [[getattr(one, name) for one in chunks] for name in columns])


def _embed_later(entry_id: UUID, model: str) -> None:
    """Embed the chunks as they are now; the document may have changed again since the commit."""
    chunks = list(MemoryChunk.objects.filter(entry_id=entry_id).exclude(vectors__model=model))
    if not chunks:
        return
    for embedder in writers_embedders(chunks[0].workspace_id):
        if embedder.name == model:
            try:
                with embedding_slot(chunks[0].workspace_id):
                    add_vectors(chunks, embedder)
            except Fault as fault:
                log.warning("chunks_not_embedded", model=model, why=fault.detail)
