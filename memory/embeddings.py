"""Stores vectors, and moves a workspace's memory to another embedding model while it is in use.

A move commits every batch and looks up again what is missing, so a move that was killed continues
where it stopped. Searches use the old model until the last chunk has its new vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from time import sleep
from uuid import UUID

from django.db import connection, transaction
from django.db.models import QuerySet

from agents.exceptions import ProviderUnavailable
from core.db import release_connection
from core.throttling import embedding_slot
from memory.embedders import (
    MOST_DIMENSIONS,
    SENTENCES,
    STATIC,
    Embedder,
    SentenceEmbedder,
    Vector,
    WordLlamaEmbedder,
    default_model,
    embedder_named,
)
from memory.models import EmbeddingChoice, MemoryChunk, MemoryVector


def chosen_embedder(workspace_id: UUID) -> Embedder:
    """Return the embedder that searches of this workspace use."""
    choice = EmbeddingChoice.objects.for_workspace(workspace_id).first()
    name = choice.model if choice else default_model()
    return embedder_named(name, workspace_id=workspace_id)


def writers_embedders(workspace_id: UUID) -> list[Embedder]:
    """Return the embedders for new text: the chosen model's, and the one that is being moved to.

    The first text of a workspace chooses its model, so that another default never hides its vectors.
    """
    choices = EmbeddingChoice.objects.for_workspace(workspace_id)
    choice = choices.first()
    if choice is None:
        first = EmbeddingChoice(workspace_id=workspace_id, model=default_model())
        EmbeddingChoice.objects.bulk_create([first], ignore_conflicts=True)
        choice = choices.get()
    names = [choice.model, choice.coming]
    return [embedder_named(name, workspace_id=workspace_id) for name in names if name]


def is_local(embedder: Embedder) -> bool:
    """Return whether an embedder needs no network, so that a transaction may use it."""
    return isinstance(embedder, SentenceEmbedder | WordLlamaEmbedder)


def add_vectors(
    chunks: Sequence[MemoryChunk],
    embedder: Embedder,
    *,
    vectors: Sequence[Vector] | None = None,
) -> int:
    """Store the vectors of these chunks. Existing vectors stay."""
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


def lock_choice(workspace_id: UUID, *, alone: bool = False) -> None:
    """Lock the choice of model until the transaction ends: shared for writers, exclusive if `alone`.

    So no writer that still knows the old model can commit after a change of model.
    """
    how = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
    key = int.from_bytes(workspace_id.bytes[-8:], "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {how}(%s)", [key])


BUILD_MEMORY = "256MB"


def index_name(model: str) -> str:
    if model in (SENTENCES, STATIC):
        return f"memory_vector_{model}"
    return f"memory_vector_{sha256(model.encode()).hexdigest()[:16]}"


def ensure_index(embedder: Embedder) -> None:
    """Create the model's index if it is missing, without blocking writers."""
    if embedder.dimensions > MOST_DIMENSIONS:
        return
    name = index_name(embedder.name)
    # PostgreSQL cannot build an index concurrently inside a transaction.
    beside = "" if connection.in_atomic_block else "CONCURRENTLY"
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name])
        found = cursor.fetchone()
        if found and found[0]:
            return
        if found:
            # A build that was killed leaves an invalid index.
            cursor.execute(f"DROP INDEX {beside} IF EXISTS {name}")
        # A graph that does not fit into memory takes many times longer to build.
        cursor.execute(f"SET maintenance_work_mem = '{BUILD_MEMORY}'")
        cursor.execute(
            f"CREATE INDEX {beside} IF NOT EXISTS {name} ON memory_memoryvector USING hnsw "
            f"((vector::vector({int(embedder.dimensions)})) vector_cosine_ops) WHERE model = %s",
            [embedder.name],
        )
        cursor.execute("RESET maintenance_work_mem")


#: Chunks in one commit.
BATCH = 50
#: Seconds before each retry of a busy provider, unless it sends its own delay.
PAUSES = (1.0, 5.0, 20.0, 60.0)
LONGEST_PAUSE = 120.0

#: Called with the number of chunks that are done, and of all chunks.
Progress = Callable[[int, int], None]


def _quiet(done: int, total: int) -> None:
    """Report no progress."""


def embed_missing(
    workspace_id: UUID, *, progress: Progress = _quiet, check: Callable[[], None] = lambda: None
) -> int:
    """Add the vectors that chunks of this workspace lack, and return how many."""
    embedders = writers_embedders(workspace_id)
    return sum(_fill(workspace_id, embedder, progress, check) for embedder in embedders)


def move(
    workspace_id: UUID,
    model: str,
    *,
    progress: Progress = _quiet,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Embed all chunks with this model, then search with it. Return how many were embedded.

    `check` raises to stop it; what was embedded until then stays.
    """
    embedder = embedder_named(model, workspace_id=workspace_id)
    _announce(workspace_id, embedder.name)
    ensure_index(embedder)
    done = 0
    while True:
        done += _fill(workspace_id, embedder, progress, check)
        if _arrive(workspace_id, embedder.name):
            return done


def missing(workspace_id: UUID, model: str) -> QuerySet[MemoryChunk]:
    """Return the chunks without a vector of this model."""
    having = MemoryVector.objects.filter(model=model).values("chunk_id")
    return MemoryChunk.objects.for_workspace(workspace_id).exclude(pk__in=having)


@transaction.atomic
def _announce(workspace_id: UUID, model: str) -> None:
    """Let writers embed with this model too, from now on."""
    lock_choice(workspace_id, alone=True)
    choice, _ = EmbeddingChoice.objects.get_or_create(
        workspace_id=workspace_id, defaults={"model": default_model()}
    )
    choice.coming = "" if choice.model == model else model
    choice.save(update_fields=["coming"])


def _fill(
    workspace_id: UUID, embedder: Embedder, progress: Progress, check: Callable[[], None]
) -> int:
    total = MemoryChunk.objects.for_workspace(workspace_id).count()
    left = missing(workspace_id, embedder.name).count()
    done = 0
    progress(total - left, total)
    after: UUID | None = None
    while True:
        check()
        rows = missing(workspace_id, embedder.name).order_by("pk")
        chunks = list((rows.filter(pk__gt=after) if after else rows)[:BATCH])
        if not chunks:
            return done
        after = chunks[-1].pk
        done += add_to_living(chunks, embedder)
        progress(min(total, total - left + done), total)


def _embed_patiently(texts: list[str], embedder: Embedder) -> list[Vector]:
    """Return the vectors, waiting for a busy provider."""
    for pause in PAUSES:
        try:
            return embedder.embed(texts)
        except ProviderUnavailable as fault:
            sleep(min(fault.retry_after or pause, LONGEST_PAUSE))
    return embedder.embed(texts)


def add_to_living(chunks: list[MemoryChunk], embedder: Embedder) -> int:
    """Embed first, then store the vectors of chunks that still exist: documents may have changed."""
    texts = [chunk.text for chunk in chunks]
    release_connection()  # The model may be slow, or busy with other workspaces.
    with embedding_slot(chunks[0].workspace_id):
        vectors = _embed_patiently(texts, embedder)
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
    """Let searches use the model, unless a writer has left chunks without its vectors."""
    lock_choice(workspace_id, alone=True)
    if missing(workspace_id, model).exists():
        return False
    EmbeddingChoice.objects.filter(workspace_id=workspace_id).update(model=model, coming="")
    return True
