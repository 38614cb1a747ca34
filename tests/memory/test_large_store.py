"""Tests that a large store is searched by its indexes and finds what an exact search finds."""

from __future__ import annotations

import random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bench.memory_crowd import Writer, fill
from memory.ownership import Reader
from memory.recall import Search, recall
from tests import factories

COUNT = 500
QUESTIONS = 20


@pytest.fixture
def store(workspace, foreign_workspace):
    """Create a workspace with three agents, and another one of the same size."""
    writer = Writer()
    agents = [factories.agent(workspace).pk for _ in range(3)]
    texts = fill(workspace.pk, agents, COUNT, writer=writer)
    fill(foreign_workspace.pk, [factories.agent(foreign_workspace).pk], COUNT, writer=writer)
    asked = random.Random(1).sample(sorted(texts.values()), QUESTIONS)
    reader = Reader(workspace_id=workspace.pk, whole_workspace=True)
    return reader, [writer.question(text) for text in asked]


def search_ids(reader: Reader, query: str, *, exact_up_to: int) -> list[object]:
    search = Search(limit=10, thin=False, exact_up_to=exact_up_to)
    return [hit.chunk_id for hit in recall(reader, query, search)]


def test_the_indexes_find_what_an_exact_search_finds(store):
    reader, questions = store
    kept = total = 0
    for question in questions:
        exact = search_ids(reader, question, exact_up_to=10 * COUNT)
        quick = search_ids(reader, question, exact_up_to=0)
        kept += len(set(exact) & set(quick))
        total += len(exact)

    assert total == 10 * QUESTIONS
    assert kept / total >= 0.95


@pytest.mark.parametrize(("exact_up_to", "uses_indexes"), [(3, False), (2, True)])
def test_the_number_of_visible_chunks_decides_whether_indexes_are_used(
    remember, reader, exact_up_to, uses_indexes
):
    for number in range(3):
        remember(f"{number}.md", f"Kettle {number}")
    with CaptureQueriesContext(connection) as queries:
        assert len(search_ids(reader, "kettle", exact_up_to=exact_up_to)) == 3
    sql = " ".join(query["sql"] for query in queries)

    assert ("hnsw.iterative_scan" in sql) is uses_indexes
    assert ("::vector(384) <=>" in sql) is uses_indexes


@pytest.mark.django_db
@pytest.mark.parametrize(("model", "size"), [("wordllama", 256), ("minilm", 384)])
def test_the_vectors_of_a_model_have_their_own_index(model, size):
    with connection.cursor() as cursor:
        # With few rows any plan is cheap; the test is whether the index can be used.
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        cursor.execute(
            "EXPLAIN SELECT chunk_id FROM memory_memoryvector WHERE model = %s"  # noqa: S608
            f" ORDER BY vector::vector({size}) <=> %s::vector({size}) LIMIT 10",
            [model, str([0.1] * size)],
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert f"memory_vector_{model}" in plan
