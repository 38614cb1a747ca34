"""Tests that rewriting a document replaces only the chunks that changed."""

from __future__ import annotations

from io import StringIO

from django.core.management import call_command

from memory.documents import change_entry, delete_entry
from memory.index import add_awaited_vectors
from memory.models import MemoryChunk, MemoryVector
from memory.ownership import person
from memory.recall import recall


def rows(entry) -> dict[str, MemoryChunk]:
    return {one.text: one for one in entry.chunks.order_by("position")}


def vectors(entry) -> dict[str, object]:
    found = MemoryVector.objects.filter(chunk__entry=entry).select_related("chunk")
    return {one.chunk.text: one.pk for one in found}


def test_an_unchanged_chunk_keeps_its_row_and_its_vector(remember):
    entry = remember("MEMORY.md", "- tea\n- cat\n- rain")
    before, vectors_before = rows(entry), vectors(entry)
    remember("MEMORY.md", "- sun\n- cat\n- tea\n- rain")
    after, vectors_after = rows(entry), vectors(entry)

    assert list(after) == ["- sun", "- cat", "- tea", "- rain"]
    assert [one.position for one in after.values()] == [0, 1, 2, 3]
    for text in ("- cat", "- tea", "- rain"):
        assert after[text].pk == before[text].pk
        assert vectors_after[text] == vectors_before[text]
    assert after["- cat"].beside == "- sun\n- tea"
    assert vectors_after.keys() == after.keys()


def test_the_same_line_twice_is_two_chunks(remember):
    entry = remember("log.md", "- rain\n- sun\n- rain")
    remember("log.md", "- rain\n- rain\n- rain")

    assert [one.text for one in entry.chunks.order_by("position")] == ["- rain"] * 3
    remember("log.md", "- rain\n- sun")
    assert list(rows(entry)) == ["- rain", "- sun"]


def test_a_renamed_document_is_found_by_the_words_of_its_path(remember, reader):
    entry = remember("a.md", "- rain\n- sun")
    change_entry(entry, author=person(None), path="weather/lisbon.md")

    assert recall(reader, "lisbon")[0].path == "weather/lisbon.md"


def test_documents_split_by_an_older_release_are_split_again(remember):
    entry = remember("log.md", "- rain\n- sun")
    kept = rows(entry)["- sun"]
    MemoryChunk.objects.filter(position=0).delete()
    MemoryChunk.objects.filter(pk=kept.pk).update(position=0, beside="")
    gone = remember("gone.md", "- fog\n- hail")
    delete_entry(gone)
    call_command("rechunk", stdout=StringIO())
    add_awaited_vectors()

    assert list(rows(entry)) == ["- rain", "- sun"]
    assert rows(entry)["- sun"].pk == kept.pk
    assert vectors(entry).keys() == {"- rain", "- sun"}
    assert not gone.chunks.exists()
