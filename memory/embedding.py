"""Which embedder a workspace uses, and the vectors of its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connection

from memory.embedders import DEFAULT, Embedder, Vector, WordLlamaEmbedder, embedder_named
from memory.models import EmbeddingChoice, MemoryChunk, MemoryVector


def chosen_embedder(workspace_id: UUID) -> Embedder:
    """What searches of this workspace use."""
    choice = EmbeddingChoice.objects.for_workspace(workspace_id).first()
    name = choice.model if choice else DEFAULT
    return embedder_named(name, workspace_id=workspace_id)


def writers_embedders(workspace_id: UUID) -> list[Embedder]:
    """What a new text is embedded with: the chosen model, and the one that is to follow it."""
    choice = EmbeddingChoice.objects.for_workspace(workspace_id).first()
    names = [choice.model, choice.coming] if choice else [DEFAULT]
    return [embedder_named(name, workspace_id=workspace_id) for name in names if name]


def is_local(embedder: Embedder) -> bool:
    """Whether it answers at once and always, so that it may work inside a transaction."""
    return isinstance(embedder, WordLlamaEmbedder)


def add_vectors(
    chunks: Sequence[MemoryChunk],
    embedder: Embedder,
    *,
    vectors: Sequence[Vector] | None = None,
) -> int:
    """Store the vectors of these chunks. One that somebody else stored meanwhile stays."""
    if vectors is None:
        vectors = embedder.embed([chunk.text for chunk in chunks])
    made = [
        MemoryVector(
            chunk_id=chunk.pk,
            workspace_id=chunk.workspace_id,
            owner_id=chunk.owner_id,
            scope=chunk.scope,
            model=embedder.name,
            dimensions=embedder.dimensions,
            vector=vector,
        )
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]
    MemoryVector.objects.bulk_create(made, batch_size=500, ignore_conflicts=True)
    return len(made)


def hold_choice(workspace_id: UUID, *, alone: bool = False) -> None:
    """Until the transaction's end: writers side by side, the one who changes the model alone.

    So no writer that still knows the old model can commit after the change.
    """
    how = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
    key = int.from_bytes(workspace_id.bytes[-8:], "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {how}(%s)", [key])
