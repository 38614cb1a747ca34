"""Tests that memory moves to another model while in use, and that a killed move continues."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from agents.exceptions import ProviderFault, ProviderUnavailable
from agents.providers import embeddings
from agents.providers import embeddings as provider_embeddings
from agents.providers.keys import save_key
from memory import embeddings as reembedding
from memory.embedders import SENTENCES
from memory.embeddings import chosen_embedder, missing, move
from memory.models import EmbeddingChoice, MemoryChunk, MemoryVector
from memory.recall import recall
from tests.memory.conftest import remember_for
from tests.wire.gemini import GeminiWire
from tests.wire.openai import OpenAIWire
from tests.wire.server import Wire

MODEL = "openai:text-embedding-3-small@64"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def wire(workspace, settings):
    with OpenAIWire() as server:
        configure(server, workspace, settings)
        yield server


def configure(server: Wire, workspace, settings, provider: str = "openai") -> None:
    settings.EGRESS_ALLOWED_PRIVATE = [server.url.removeprefix("http://").split("/")[0]]
    save_key(workspace_id=workspace.pk, provider=provider, api_key=server.key, base_url=server.url)


def test_every_chunk_gets_a_vector_and_searches_use_the_new_model(
    wire, remember, reader, workspace
):
    for number in range(7):
        remember(f"notes/{number}.md", f"The kettle number {number} is in the kitchen.")
    seen: list[tuple[int, int]] = []
    done = move(workspace.pk, MODEL, progress=lambda *at: seen.append(at))

    assert done == 7
    assert seen[0] == (0, 7)
    assert seen[-1] == (7, 7)
    assert chosen_embedder(workspace.pk).name == MODEL
    sizes = MemoryVector.objects.values_list("model", "dimensions").distinct()
    assert set(sizes) == {(SENTENCES, 384), (MODEL, 64)}
    hits = recall(reader, "kettle 3")
    assert hits[0].path == "notes/3.md"
    assert hits[0].parts["meaning"] > 0
    assert wire.requests[-1].body["input"] == ["kettle 3"]


def test_new_documents_are_embedded_with_the_new_model(wire, remember, workspace):
    move(workspace.pk, MODEL)
    remember("a.md", "The kettle is red.")

    assert set(MemoryVector.objects.values_list("model", flat=True)) == {MODEL}


def test_documents_are_found_by_their_words_when_the_model_is_unavailable(
    wire, remember, reader, workspace
):
    move(workspace.pk, MODEL)
    save_key(workspace_id=workspace.pk, provider="openai", api_key="wrong-key", base_url=wire.url)
    remember("a.md", "The kettle is red.")

    assert not MemoryVector.objects.exists()
    assert recall(reader, "kettle")[0].path == "a.md"


def test_a_killed_move_continues_where_it_stopped(wire, reader, workspace, monkeypatch):
    monkeypatch.setattr(reembedding, "BATCH", 2)
    for number in range(7):
        remember_for(reader, f"notes/{number}.md", f"Note {number} about kettles.")

    def kill(done: int, total: int) -> None:
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move(workspace.pk, MODEL, progress=kill)
    connection.close()
    assert chosen_embedder(workspace.pk).name == SENTENCES
    assert missing(workspace.pk, MODEL).count() == 3
    assert recall(reader, "kettles")

    asked = len(wire.requests)
    remember_for(reader, "notes/late.md", "A late note about kettles.")
    assert missing(workspace.pk, MODEL).count() == 3
    assert move(workspace.pk, MODEL) == 3
    assert sum(len(one.body["input"]) for one in wire.requests[asked:]) == 4
    assert chosen_embedder(workspace.pk).name == MODEL
    assert not missing(workspace.pk, MODEL).exists()


def test_a_document_rewritten_during_the_move_has_its_newest_text_embedded(wire, reader, workspace):
    remember_for(reader, "a.md", "The kettle is red.")

    def rewrite(done: int, total: int) -> None:
        if done == 0:
            remember_for(reader, "a.md", "The kettle is blue.")

    move(workspace.pk, MODEL, progress=rewrite)

    assert not missing(workspace.pk, MODEL).exists()
    assert [chunk.text for chunk in MemoryChunk.objects.all()] == ["The kettle is blue."]


def test_a_model_gets_an_index_of_its_own(wire, workspace):
    move(workspace.pk, "openai:text-embedding-3-small@48")
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'memory_memoryvector'")
        made = [row[0] for row in cursor.fetchall() if "@48" in row[0]]

    assert len(made) == 1
    assert "USING hnsw" in made[0]
    assert "vector(48)" in made[0]


def test_a_refused_key_stops_the_move_and_changes_nothing(wire, remember, reader, workspace):
    remember("a.md", "The kettle is red.")
    save_key(workspace_id=workspace.pk, provider="openai", api_key="wrong-key", base_url=wire.url)

    with pytest.raises(ProviderFault):
        move(workspace.pk, MODEL)
    assert chosen_embedder(workspace.pk).name == SENTENCES
    assert recall(reader, "kettle")


def test_the_move_waits_for_a_busy_provider(wire, remember, workspace, monkeypatch):
    """Thousands of chunks exceed any rate limit."""
    remember("a.md", "The kettle is red.")
    busy = [ProviderUnavailable("busy", retry_after=3.5), ProviderUnavailable("busy")]
    waited: list[float] = []
    embed = provider_embeddings.embed

    def fail_while_busy(*given, **words):
        if busy:
            raise busy.pop(0)
        return embed(*given, **words)

    monkeypatch.setattr(embeddings, "embed", fail_while_busy)
    monkeypatch.setattr(reembedding, "sleep", waited.append)

    assert move(workspace.pk, MODEL) == 1
    assert waited == [3.5, reembedding.PAUSES[1]]


def test_a_provider_that_stays_unavailable_ends_the_move(wire, remember, workspace, monkeypatch):
    remember("a.md", "The kettle is red.")

    def fail(*given, **words):
        raise ProviderUnavailable("away")

    monkeypatch.setattr(embeddings, "embed", fail)
    monkeypatch.setattr(reembedding, "sleep", lambda seconds: None)
    with pytest.raises(ProviderUnavailable):
        move(workspace.pk, MODEL)


def test_the_command_shows_progress_and_a_summary(wire, remember, workspace):
    remember("a.md", "The kettle is red.")
    out = StringIO()
    call_command("reembed", model="openai:text-embedding-3-small@64", workspace="Yard", stdout=out)

    assert "█" * 30 + " 1/1" in out.getvalue()
    assert "Yard: 1 chunks embedded" in out.getvalue()
    call_command("reembed", model="wordllama", workspace=str(workspace.pk), stdout=out)
    assert EmbeddingChoice.objects.get().model == "wordllama"


@pytest.mark.parametrize("model", ["nope", "openai:x@0", "openai:x@many", "gemini:@99999999"])
def test_an_unknown_model_is_refused(workspace, model):
    with pytest.raises(CommandError, match="No embedding model"):
        call_command("reembed", model=model, stdout=StringIO())
    with pytest.raises(CommandError, match="No workspace"):
        call_command("reembed", model=model, workspace="nobody", stdout=StringIO())


def test_gemini_embeds_documents_and_queries_with_different_task_types(
    workspace, settings, remember, reader
):
    with GeminiWire(models=("gemini-embedding-001",)) as server:
        configure(server, workspace, settings, provider="gemini")
        remember("a.md", "The kettle is red.")
        move(workspace.pk, "gemini")
        assert recall(reader, "red kettle")[0].parts["meaning"] > 0

    tasks = [one.body["requests"][0]["taskType"] for one in server.requests]
    assert tasks == ["RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"]
    assert MemoryVector.objects.get(model="gemini:gemini-embedding-001@768").dimensions == 768


def test_a_server_with_vectors_of_another_size_is_refused(wire, remember, workspace):
    remember("a.md", "The kettle is red.")

    with pytest.raises(ProviderFault, match="expected 100 numbers"):
        move(workspace.pk, "openai:local-model@100")
