"""Moves a workspace's memory to another embedding model while it is in use.

Every batch is a commit, and what is missing is looked up anew: killed at any point, the next call
goes on where this one was. Searches use the old model until the last chunk has its new vector.
"""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from config.faults import ProviderUnavailable
from memory.embedders import DEFAULT, Embedder, Vector, embedder_named
from memory.embedding import add_vectors, hold_choice
from memory.models import EmbeddingChoice, MemoryChunk, MemoryVector
from memory.vector_index import ensure_index

BATCH = 200
#: Seconds before each new try when a provider is busy or away; its own word on it counts more.
PAUSES = (1.0, 5.0, 20.0, 60.0)
LONGEST_PAUSE = 120.0

#: Called with how many chunks are done, and how many there are.
Progress = Callable[[int, int], None]


def _quiet(done: int, total: int) -> None:
    """Nobody is watching."""


def move(workspace_id: UUID, model: str, *, progress: Progress = _quiet) -> int:
    """Embed what is not embedded with this model, then search with it. Answers how many it did."""
    embedder = embedder_named(model, workspace_id=workspace_id)
    _announce(workspace_id, embedder.name)
    ensure_index(embedder)
    done = 0
    while True:
        done += _fill(workspace_id, embedder, progress)
        if _arrive(workspace_id, embedder.name):
            return done


def missing(workspace_id: UUID, model: str) -> QuerySet[MemoryChunk]:
    """Chunks without a vector of this model."""
    having = MemoryVector.objects.filter(model=model).values("chunk_id")
    return MemoryChunk.objects.for_workspace(workspace_id).exclude(pk__in=having)


@transaction.atomic
def _announce(workspace_id: UUID, model: str) -> None:
    """From now on writers embed with this model too."""
    hold_choice(workspace_id, alone=True)
    choice, _ = EmbeddingChoice.objects.get_or_create(
        workspace_id=workspace_id, defaults={"model": DEFAULT}
    )
    choice.coming = "" if choice.model == model else model
    choice.save(update_fields=["coming"])


def _fill(workspace_id: UUID, embedder: Embedder, progress: Progress) -> int:
    total = MemoryChunk.objects.for_workspace(workspace_id).count()
    left = missing(workspace_id, embedder.name).count()
    done = 0
    progress(total - left, total)
    after: UUID | None = None
    while True:
        rows = missing(workspace_id, embedder.name).order_by("pk")
        chunks = list((rows.filter(pk__gt=after) if after else rows)[:BATCH])
        if not chunks:
            return done
        after = chunks[-1].pk
        done += _add(chunks, embedder)
        progress(min(total, total - left + done), total)


def _embed_patiently(texts: list[str], embedder: Embedder) -> list[Vector]:
    """The vectors, from a provider that may have to be waited for."""
    for pause in PAUSES:
        try:
            return embedder.embed(texts)
        except ProviderUnavailable as fault:
            sleep(min(fault.retry_after or pause, LONGEST_PAUSE))
    return embedder.embed(texts)


def _add(chunks: list[MemoryChunk], embedder: Embedder) -> int:
    """Embed first, then store those that are still there: a document may be rewritten meanwhile."""
    vectors = _embed_patiently([chunk.text for chunk in chunks], embedder)
    with transaction.atomic():
        alive = set(
            MemoryChunk.objects.select_for_update(no_key=True)
            .filter(pk__in=[chunk.pk for chunk in chunks])
            .values_list("pk", flat=True)
        )
        kept = [
            (chunk, vector)
            for chunk, vector in zip(chunks, vectors, strict=True)
            if chunk.pk in alive
        ]
        add_vectors([chunk for chunk, _ in kept], embedder, vectors=[vector for _, vector in kept])
    return len(kept)


@transaction.atomic
def _arrive(workspace_id: UUID, model: str) -> bool:
    """Search with the model from now on, unless a writer has left something to do."""
    hold_choice(workspace_id, alone=True)
    if missing(workspace_id, model).exists():
        return False
    EmbeddingChoice.objects.filter(workspace_id=workspace_id).update(model=model, coming="")
    return True
