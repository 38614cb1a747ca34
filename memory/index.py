"""Keeps the chunks of a document in step with its newest text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

import structlog
from django.db import transaction

from config.faults import Fault
from memory.chunking import Piece, chunk
from memory.embedding import add_vectors, is_local, writers_embedders
from memory.models import MemoryChunk, MemoryEntry

log = structlog.get_logger(__name__)

Splitter = Callable[[str, str], list[Piece]]


def index_entry(entry: MemoryEntry, content: str, *, split: Splitter = chunk) -> None:
    """Replace the document's chunks. Part of the transaction that changed it.

    A model out of this process is asked after the commit; until then, and if it fails, the
    document is found by its words, and `manage.py reembed` adds what is missing.
    """
    MemoryChunk.objects.filter(entry=entry).delete()
    if entry.never_recall or entry.deleted_at is not None:
        return
    chunks = MemoryChunk.objects.bulk_create(
        MemoryChunk(
            entry=entry,
            workspace_id=entry.workspace_id,
            owner_id=entry.owner_id,
            scope=entry.scope,
            position=position,
            text=piece.text,
            label=piece.label,
            speakers=piece.speakers,
            beside=piece.beside,
        )
        for position, piece in enumerate(split(entry.path, content))
    )
    for embedder in writers_embedders(entry.workspace_id):
        if is_local(embedder):
            add_vectors(chunks, embedder)
        else:
            transaction.on_commit(partial(_embed_later, entry.pk, embedder.name))


def _embed_later(entry_id: UUID, model: str) -> None:
    """Embed the chunks that are there now; the document may have changed again meanwhile."""
    chunks = list(MemoryChunk.objects.filter(entry_id=entry_id).exclude(vectors__model=model))
    if not chunks:
        return
    for embedder in writers_embedders(chunks[0].workspace_id):
        if embedder.name == model:
            try:
                add_vectors(chunks, embedder)
            except Fault as fault:
                log.warning("chunks_not_embedded", model=model, why=fault.detail)
