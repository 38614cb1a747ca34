"""Tests that documents are changed, deleted, restored and redacted without losing authorship."""

from __future__ import annotations

import pytest
from django.db import connection

from core.exceptions import Conflict, NotFound
from memory.documents import (
    Marks,
    change_entry,
    content_of,
    delete_entry,
    find_by_path,
    pinned_entries,
    redact,
    restore_version,
)
from memory.exceptions import MemoryConflict
from memory.models import MemoryChunk, MemoryEntry, MemoryVector
from memory.ownership import Reader, person
from memory.recall import recall


@pytest.fixture
def entry(remember) -> MemoryEntry:
    remember("plan.md", "We launch the rocket on Monday.")
    return remember("plan.md", "We launch the rocket on Tuesday.")


def tables_with(text: str) -> list[str]:
    """Return the tables of memory that still contain this text."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table.startswith(("memory_", "agent_memory")):
                query = f"SELECT count(*) FROM {table} t WHERE t::text ILIKE %s"  # noqa: S608
                cursor.execute(query, [f"%{text}%"])
                found += [table] * bool(cursor.fetchone()[0])
    return found


def test_redaction_removes_the_text_from_every_table_and_keeps_the_record(entry, owner, reader):
    assert tables_with("rocket") == ["memory_memorychunk", "memory_memoryversion"]
    redact(entry, by=owner.pk)

    assert tables_with("rocket") == []
    assert not MemoryChunk.objects.exists()
    assert not MemoryVector.objects.exists()
    assert recall(reader, "rocket") == []
    for number, version in enumerate(entry.versions.order_by("number"), 1):
        assert (version.number, version.author, version.created_by) == (number, "person", owner)
        assert (version.content, version.hash, version.redacted_by) == ("", "", owner)
        assert version.redacted_at
        assert version.bytes > 0


def test_one_old_version_can_be_redacted_and_the_newest_text_stays(entry, owner, reader):
    redact(entry, by=owner.pk, number=1)

    assert tables_with("Monday") == []
    assert recall(reader, "rocket launch")[0].excerpt == "We launch the rocket on Tuesday."


def test_a_redacted_version_cannot_be_restored_or_filled_again(entry, owner):
    redact(entry, by=owner.pk, number=1)

    with pytest.raises(Conflict, match="redacted"):
        restore_version(entry, 1, author=person(owner.pk))
    with pytest.raises(Exception, match="immutable"):
        entry.versions.filter(number=1).update(content="We launch", redacted_at=None)


def test_a_redacted_document_can_be_written_again(entry, owner, remember, reader):
    redact(entry, by=owner.pk)
    remember("plan.md", "The launch is off.")

    assert recall(reader, "launch")[0].excerpt == "The launch is off."
    assert entry.versions.count() == 3


def test_restoring_writes_the_old_text_as_the_newest_version(entry, owner, reader):
    restored = restore_version(entry, 1, author=person(owner.pk))

    assert restored.current.number == 3
    assert "Monday" in recall(reader, "rocket launch")[0].excerpt
    with pytest.raises(NotFound):
        restore_version(entry, 9, author=person(owner.pk))


def test_a_deleted_document_is_not_found_until_it_is_restored(entry, owner, reader):
    delete_entry(entry)
    assert recall(reader, "rocket") == []
    with pytest.raises(NotFound):
        find_by_path(reader, "plan.md")
    with pytest.raises(NotFound):
        change_entry(entry, author=person(owner.pk), content="x")

    restore_version(entry, 2, author=person(owner.pk))
    assert find_by_path(reader, "plan.md").pk == entry.pk
    assert recall(reader, "rocket")


def test_restoring_a_document_does_not_make_it_trusted(entry, owner):
    distrusted = Marks(trust=MemoryEntry.Trust.UNTRUSTED)
    change_entry(entry, author=person(owner.pk), marks=distrusted)
    delete_entry(entry)

    assert restore_version(entry, 2, author=person(owner.pk)).trust == "untrusted"


def test_restoring_a_document_does_not_overwrite_another(entry, owner, remember, reader):
    delete_entry(entry)
    remember("plan.md", "A new plan.")

    with pytest.raises(Conflict, match="Another document"):
        restore_version(entry, 1, author=person(owner.pk))
    assert content_of(find_by_path(reader, "plan.md")) == "A new plan."


def test_a_change_based_on_an_older_text_is_refused(entry, owner):
    old = entry.versions.get(number=1).hash

    for change in (
        lambda: change_entry(entry, author=person(owner.pk), content="x", expected_hash=old),
        lambda: delete_entry(entry, expected_hash=old),
        lambda: restore_version(entry, 1, author=person(owner.pk), expected_hash=old),
    ):
        with pytest.raises(MemoryConflict):
            change()
    assert MemoryEntry.objects.kept().get().hash == entry.hash


def test_changing_the_path_or_a_mark_creates_no_version(entry, owner, remember):
    changed = change_entry(
        entry, author=person(owner.pk), path="plans/rocket.md", marks=Marks(pinned=True)
    )
    assert (changed.path, changed.pinned, changed.versions.count()) == ("plans/rocket.md", True, 2)

    remember("other.md", "text")
    with pytest.raises(Conflict):
        change_entry(entry, author=person(owner.pk), path="other.md")


def test_the_narrowest_scope_wins_for_a_path(remember, reader):
    for scope in ("session", "workspace", "agent"):
        remember("a.md", f"of the {scope}", scope=scope)

    assert content_of(find_by_path(reader, "a.md")) == "of the session"


def test_pinned_documents_of_every_visible_scope_are_listed(remember, reader):
    remember("b.md", "agent's", pinned=True)
    remember("a.md", "everybody's", scope="workspace", pinned=True)
    remember("c.md", "not pinned")
    other = Reader(workspace_id=reader.workspace_id)

    assert [entry.path for entry in pinned_entries(reader)] == ["a.md", "b.md"]
    assert [entry.path for entry in pinned_entries(other)] == ["a.md"]


def test_memory_md_comes_first_and_never_recalled_documents_are_left_out(remember, reader):
    remember("a.md", "pinned", pinned=True)
    remember("MEMORY.md", "by heart")
    remember("b.md", "read by its path only", pinned=True, never_recall=True)

    assert [entry.path for entry in pinned_entries(reader)] == ["MEMORY.md", "a.md"]
