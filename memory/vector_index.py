"""One HNSW index per embedding model, over that model's vectors only."""

from __future__ import annotations

from hashlib import sha256

from django.db import connection

from memory.embedders import DEFAULT, Embedder

#: What an HNSW index can hold.
MOST_DIMENSIONS = 2_000
BUILD_MEMORY = "256MB"


def index_name(model: str) -> str:
    if model == DEFAULT:
        return "memory_vector_wordllama"
    return f"memory_vector_{sha256(model.encode()).hexdigest()[:16]}"


def ensure_index(embedder: Embedder) -> None:
    """Make the model's index if it is missing, without stopping writers."""
    if embedder.dimensions > MOST_DIMENSIONS:
        return
    name = index_name(embedder.name)
    # Inside a transaction PostgreSQL cannot build beside writers.
    beside = "" if connection.in_atomic_block else "CONCURRENTLY"
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name])
        found = cursor.fetchone()
        if found and found[0]:
            return
        if found:
            # A build that was killed leaves an index that nothing uses.
            cursor.execute(f"DROP INDEX {beside} IF EXISTS {name}")
        # A graph that does not fit into memory is built many times slower.
        cursor.execute(f"SET maintenance_work_mem = '{BUILD_MEMORY}'")
        cursor.execute(
            f"CREATE INDEX {beside} IF NOT EXISTS {name} ON memory_memoryvector USING hnsw "
            f"((vector::vector({int(embedder.dimensions)})) vector_cosine_ops) WHERE model = %s",
            [embedder.name],
        )
        cursor.execute("RESET maintenance_work_mem")
