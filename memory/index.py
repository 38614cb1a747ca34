"""Keeps the chunks of a document in sync with its newest text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from uuid import UUID

import structlog
from django.db import connection, transaction

from core.exceptions import Fault
from core.throttling import embedding_slot
from memory.chunking import Piece, chunk
from memory.embeddings import add_vectors, is_local, writers_embedders
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
    embedding. A remote model is called after the commit; until then, or if it fails, the document is
    found by its words, and `embed_missing` adds the missing vectors. Without `embeds`, the caller
    does that.
    """
    hidden = entry.never_recall or entry.deleted_at is not None
    pieces = [] if hidden else chunk(entry.path, content)
    fresh = _store(entry, pieces)
    for embedder in writers_embedders(entry.workspace_id) if fresh and embeds else []:
        if is_local(embedder):
            add_vectors(fresh, embedder)
        else:
            transaction.on_commit(partial(_embed_later, entry.pk, embedder.name))


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
