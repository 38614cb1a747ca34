"""Tests of the embedded sentence model, its fallback, and the vectors that are computed later."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from memory import embedders, embeddings, index, sentence_model
from memory.embedders import SENTENCES, STATIC, SentenceEmbedder, computations
from memory.embeddings import chosen_embedder, missing
from memory.exceptions import ModelUnavailable
from memory.index import EMBEDDED_AT_ONCE, add_awaited_vectors, vectors_later
from memory.models import MemoryEntry, MemoryVector
from memory.recall import Search, recall
from tests.memory import paraphrases
from tests.memory.conftest import remember_for


def similarity(first: str, second: str) -> float:
    one, other = SentenceEmbedder().embed([first, second])
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_sentences_of_the_same_meaning_are_close_and_others_are_not():
    leave = "Everyone has 28 days of annual leave."

    assert similarity("How much time off do I get?", leave) > 0.3
    assert similarity("How do I undo a bad release?", leave) < 0.2


def test_a_text_has_the_same_vector_alone_and_in_a_batch():
    texts = ["short", "a somewhat longer text about kettles", "word " * 700]
    together = SentenceEmbedder().embed(texts)

    for text, vector in zip(texts, together, strict=True):
        assert SentenceEmbedder().embed([text])[0] == pytest.approx(vector, abs=1e-4)


def test_the_end_of_a_long_text_counts():
    filler = "The committee met and talked about the agenda of the next meeting. " * 30
    long = filler + "Penicillin causes a rash."

    assert similarity(long, "allergic to an antibiotic") > similarity(
        filler, "allergic to an antibiotic"
    )


def test_rare_words_turn_the_vector_of_a_question():
    model = SentenceEmbedder()
    even = model.embed_query("the office kettle", {})
    kettle = model.embed_query("the office kettle", {"the": 0.0, "office": 0.1, "kettle": 5.0})
    [about] = model.embed(["kettle"])

    assert even
    assert kettle
    assert sum(a * b for a, b in zip(kettle, about, strict=True)) > sum(
        a * b for a, b in zip(even, about, strict=True)
    )


def test_other_weights_than_the_checked_ones_are_refused(monkeypatch):
    monkeypatch.setattr(sentence_model, "FILE_HASH", "0" * 64)

    with pytest.raises(ModelUnavailable, match="not the ones that were checked"):
        sentence_model.SentenceModel()


def test_new_memory_uses_the_smaller_model_where_the_weights_are_not_installed(
    remember, reader, workspace, monkeypatch
):
    monkeypatch.setattr(sentence_model, "PACKAGE", "a_package_that_is_missing")
    remember("a.md", "The kettle is red.")

    assert chosen_embedder(workspace.pk).name == STATIC
    assert MemoryVector.objects.get().model == STATIC
    monkeypatch.undo()
    # Installing the package later hides no vectors.
    assert chosen_embedder(workspace.pk).name == STATIC
    assert recall(reader, "kettle")[0].parts["meaning"] > 0


def test_memory_is_found_by_its_words_where_the_weights_were_removed(remember, reader, monkeypatch):
    remember("a.md", "The kettle is red.")
    monkeypatch.setattr(sentence_model, "PACKAGE", "a_package_that_is_missing")
    monkeypatch.setattr(sentence_model, "sentence_model", sentence_model.SentenceModel)

    assert recall(reader, "kettle")[0].parts["text"] > 0


def test_a_question_that_waits_too_long_for_the_model_goes_on_with_its_words(
    remember, reader, monkeypatch
):
    remember("a.md", "The kettle is red.")
    monkeypatch.setattr(embedders, "QUERY_WAIT", 0.05)
    assert computations.take("somebody else")
    try:
        hit = recall(reader, "kettle")[0]
    finally:
        computations.give_back("somebody else")

    assert hit.parts["text"] > 0
    assert hit.parts["meaning"] == 0


def test_a_question_does_not_wait_for_all_texts_that_are_being_embedded():
    texts = ["The committee met and talked about the agenda. " * 8] * 60
    indexing = threading.Thread(target=SentenceEmbedder().embed, args=(texts,))
    indexing.start()
    try:
        assert SentenceEmbedder("a workspace").embed_query("kettle", {})
        assert indexing.is_alive()
    finally:
        indexing.join()


def test_a_long_text_and_an_import_get_their_vectors_later(remember, reader, workspace):
    remember("long.md", "The kettle is red. " * (EMBEDDED_AT_ONCE // 19 + 1))
    with vectors_later():
        remember("imported.md", "The stove is blue.")

    assert not MemoryVector.objects.exists()
    assert recall(reader, "kettle")[0].path == "long.md"
    assert add_awaited_vectors() > 1
    assert not missing(workspace.pk, SENTENCES).exists()
    assert not MemoryEntry.objects.filter(awaits_vectors=True).exists()
    assert add_awaited_vectors() == 0


@pytest.mark.django_db(transaction=True)
def test_a_process_that_is_killed_while_it_adds_vectors_leaves_the_rest_to_the_next(
    reader, workspace, monkeypatch
):
    monkeypatch.setattr(index, "BATCH", 2)
    with vectors_later():
        remember_for(reader, "list.md", "\n".join(f"Kettle {n} is red." for n in range(7)))

    class Killed(BaseException):
        pass

    stored: list[bool] = []

    def store(chunks, embedder):
        if stored:
            raise Killed
        stored.append(True)
        return add(chunks, embedder)

    add = embeddings.add_to_living
    monkeypatch.setattr(index, "add_to_living", store)
    with pytest.raises(Killed):
        add_awaited_vectors()
    connection.close()
    assert missing(workspace.pk, SENTENCES).count() == 5
    monkeypatch.setattr(index, "add_to_living", add)

    assert add_awaited_vectors() == 5
    assert not missing(workspace.pk, SENTENCES).exists()


def test_a_text_that_changes_while_its_vectors_are_computed_keeps_its_mark(remember, monkeypatch):
    with vectors_later():
        remember("a.md", "The kettle is red.")
    add = embeddings.add_to_living

    def rewrite(chunks, embedder):
        monkeypatch.setattr(index, "add_to_living", add)
        done = add(chunks, embedder)
        with vectors_later():
            remember("a.md", "The kettle is red.\nThe stove is blue.")
        return done

    monkeypatch.setattr(index, "add_to_living", rewrite)
    add_awaited_vectors()

    assert not MemoryEntry.objects.filter(awaits_vectors=True).exists()
    assert MemoryVector.objects.count() == 2


def test_questions_in_other_words_find_their_notes(remember, reader):
    """`bench/README.md` has the exact figures."""
    for path in paraphrases.NOTES:
        remember(path, paraphrases.content_of(path))
    found = [
        any(note in hit.text for hit in recall(reader, question, Search(limit=3)))
        for _, note, question in paraphrases.PAIRS
    ]

    assert sum(found) >= 85
