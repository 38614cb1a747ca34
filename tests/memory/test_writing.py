"""Tests of writing: every text is a version, and a stale writer gets the newer one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from core.exceptions import Invalid
from memory.documents import ABSENT, MOST_BYTES, Marks, hash_of, restore_version, write_entry
from memory.exceptions import MemoryConflict, MemoryTooLarge
from memory.models import MemoryChunk, MemoryEntry, MemoryVector, MemoryVersion
from memory.ownership import Author, owner_within, person
from memory.recall import recall
from orchestrator.workspaces import erase_workspace
from tests.memory.conftest import remember_for


def test_a_document_has_a_version_a_hash_chunks_and_vectors(remember, owner):
    entry = remember("notes/office.md", "The office closes at six.")

    version = MemoryVersion.objects.get(entry=entry)
    assert (version.number, version.content) == (1, "The office closes at six.")
    assert entry.hash == version.hash == hash_of(version.content)
    assert (version.author, version.created_by) == ("person", owner)
    vector = MemoryVector.objects.get(chunk__entry=entry)
    assert (vector.model, vector.dimensions, len(vector.vector)) == ("minilm", 384, 384)


def test_a_new_text_creates_a_version_and_the_same_text_does_not(remember):
    entry = remember("a.md", "one")
    remember("a.md", "two")
    again = remember("a.md", "two")

    assert again.pk == entry.pk
    assert [v.content for v in entry.versions.order_by("number")] == ["one", "two"]
    assert again.current.number == 2


def test_a_stale_write_is_refused_with_the_newer_text(remember):
    first = remember("a.md", "one")
    newer = remember("a.md", "two", expected_hash=first.hash)

    with pytest.raises(MemoryConflict) as caught:
        remember("a.md", "three", expected_hash=first.hash)

    current = caught.value.extra["current"]
    assert (current["content"], current["hash"], current["version"]) == ("two", newer.hash, 2)
    assert first.versions.count() == 2


def test_a_write_that_expects_no_document_does_not_overwrite_one(remember):
    remember("a.md", "one", expected_hash=ABSENT)

    with pytest.raises(MemoryConflict):
        remember("a.md", "mine", expected_hash=ABSENT)


def test_a_write_that_expects_a_missing_document_creates_none(remember):
    with pytest.raises(MemoryConflict):
        remember("a.md", "one", expected_hash=hash_of("something"))

    assert not MemoryEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("exists", [True, False])
def test_one_concurrent_writer_wins_and_the_others_see_its_text(reader, exists):
    seen = remember_for(reader, "a.md", "start").hash if exists else ABSENT

    def write(text: str) -> str:
        try:
            return remember_for(reader, "a.md", text, expected_hash=seen).hash
        except MemoryConflict as conflict:
            return f"lost to {conflict.extra['current']['content']}"
        finally:
            connection.close()

    texts = [f"text {number}" for number in range(6)]
    with ThreadPoolExecutor(max_workers=6) as pool:
        ends = list(pool.map(write, texts))

    entry = MemoryEntry.objects.select_related("current").get()
    winner = entry.current.content
    assert ends.count(hash_of(winner)) == 1
    assert sorted(set(ends) - {hash_of(winner)}) == [f"lost to {winner}"]
    assert entry.versions.count() == (2 if exists else 1)
    assert [chunk.text for chunk in entry.chunks.all()] == [winner]


@pytest.mark.django_db(transaction=True)
def test_concurrent_writers_without_a_precondition_leave_no_gaps_in_the_numbers(reader):
    def write(number: int) -> None:
        try:
            remember_for(reader, "a.md", f"text {number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(write, range(18)))

    numbers = MemoryVersion.objects.order_by("number").values_list("number", flat=True)
    assert list(numbers) == [*range(1, 19)]


def test_a_document_that_is_too_large_is_refused_with_both_sizes(remember):
    with pytest.raises(MemoryTooLarge, match="100,002 bytes; the limit is 100,000"):
        remember("a.md", "é" * (MOST_BYTES // 2 + 1))

    assert remember("a.md", "é" * (MOST_BYTES // 2)).current.bytes == MOST_BYTES


@pytest.mark.parametrize(
    "path",
    [
        *("", " ", "/etc/passwd", "../up.md", "a/../b.md", "a//b", "a/./b", "a\\b", "a:b"),
        *("x\ny", "y" * 401, "a/ b.md", "w" * 201, "a\x00b"),
    ],
)
def test_a_path_that_is_not_a_valid_file_name_is_refused(remember, path):
    with pytest.raises(Invalid):
        remember(path, "text")


def test_text_that_the_database_cannot_store_is_refused(remember):
    with pytest.raises(Invalid, match="NUL"):
        remember("a.md", "a\x00b")


def test_every_scope_can_have_the_same_path(remember):
    for scope in ("workspace", "agent", "user", "session"):
        remember("a.md", f"of the {scope}", scope=scope)

    assert MemoryEntry.objects.filter(path="a.md").count() == 4


def test_the_database_refuses_an_owner_that_does_not_match_the_scope(remember, owner):
    entry = remember("a.md", "text")

    with pytest.raises(DatabaseError, match="memory_owner_is_of_its_scope"), transaction.atomic():
        MemoryEntry.objects.filter(pk=entry.pk).update(scope="user")
    with pytest.raises(DatabaseError, match="memory_owner_is_of_its_scope"), transaction.atomic():
        MemoryEntry.objects.filter(pk=entry.pk).update(user=owner)


@pytest.mark.parametrize(
    "change",
    [{"content": "other"}, {"number": 9}, {"author": "tool"}, {"hash": ""}, {"trust": "untrusted"}],
    ids=str,
)
def test_a_version_cannot_be_changed(remember, change):
    remember("a.md", "text")

    with pytest.raises(DatabaseError, match="immutable"):
        MemoryVersion.objects.update(**change)


@pytest.mark.django_db(transaction=True)
def test_a_version_stays_without_an_author_when_the_person_is_deleted(remember, owner):
    remember("a.md", "text")
    owner.delete()

    assert MemoryVersion.objects.get().created_by is None


@pytest.mark.django_db(transaction=True)
def test_erasing_a_workspace_erases_only_its_memory(
    remember, workspace, foreign_workspace, session
):
    from tests.factories import memory

    remember("a.md", "text")
    theirs = memory(foreign_workspace)
    erase_workspace(workspace)

    assert list(MemoryEntry.objects.all()) == [theirs]
    assert MemoryChunk.objects.count() == MemoryVector.objects.count() == 1


def test_a_never_recalled_document_has_no_chunks(remember, reader):
    entry = remember("a.md", "The password hint is a zebra.", never_recall=True)
    assert not entry.chunks.exists()
    assert recall(reader, "zebra password hint") == []

    remember("a.md", "The password hint is a zebra.", never_recall=False)
    assert recall(reader, "zebra password hint")[0].path == "a.md"


def test_only_a_person_can_mark_untrusted_content_as_trusted(remember, reader):
    tool = Author(kind=MemoryVersion.Author.TOOL, tool="memory_store")
    untrusted, trusted = MemoryEntry.Trust.UNTRUSTED, MemoryEntry.Trust.TRUSTED
    where: dict[str, Any] = {"owner": owner_within(reader, "agent"), "path": "a.md"}

    write_entry(**where, content="page", author=tool, marks=Marks(trust=untrusted))
    by_tool = write_entry(**where, content="page 2", author=tool, marks=Marks(trust=trusted))
    assert by_tool.trust == untrusted
    by_person = remember("a.md", "page 3")
    assert by_person.trust == untrusted

    assert remember("a.md", "page 3", trust=trusted).trust == trusted


def test_changing_a_mark_keeps_the_chunks_and_changing_the_text_replaces_them(remember):
    entry = remember("a.md", "one")
    chunk = entry.chunks.get()

    remember("a.md", "one", pinned=True)
    assert entry.chunks.get() == chunk
    remember("a.md", "two")
    assert entry.chunks.get() != chunk


def test_an_addition_to_an_untrusted_text_is_untrusted(remember, owner):
    remember("a.md", "page", trust=MemoryEntry.Trust.UNTRUSTED)
    entry = remember("a.md", "page and a remark")

    assert entry.current.trust == "untrusted"
    assert restore_version(entry, 2, author=person(owner.pk)).trust == "untrusted"
