"""Tests of export and import as a zip, provenance, and isolation between workspaces."""

from __future__ import annotations

import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from memory.documents import write_entry
from memory.models import MemoryEntry, MemoryVersion
from memory.ownership import Author, owner_within
from tests import factories
from tests.memory.pages.conftest import text, url


def test_an_export_can_be_imported(page, remember, agent):
    remember("a.md", "one")
    raw = b"".join(page.get(f"/memory/export/?of=agent:{agent.pk}").streaming_content)
    assert zipfile.ZipFile(io.BytesIO(raw)).namelist() == ["a.md"]

    def upload(owner: str, data: bytes):
        file = SimpleUploadedFile("memory.zip", data, "application/zip")
        return page.post("/memory/import/", {"owner": owner, "file": file}, follow=True)

    assert "1 created, 0 changed" in text(upload("workspace", raw))
    assert "0 created, 0 changed, 1 unchanged" in text(upload(f"agent:{agent.pk}", raw))
    assert "not a valid zip" in text(upload("user", b"nonsense"))
    scopes = MemoryEntry.objects.values_list("scope", flat=True)
    assert sorted(scopes) == ["agent", "workspace"]


@pytest.mark.parametrize("of", ["", "agent", "session:x", "agent:nobody", "workspace:x"])
def test_an_export_without_an_owner_is_not_found(page, of):
    assert page.get(f"/memory/export/?of={of}").status_code == 404


def test_the_history_names_the_tool_and_session_that_wrote_a_version(page, session, reader):
    author = Author(
        kind=MemoryVersion.Author.TOOL, tool="memory_store", session_id=session.pk, call_id="c1"
    )
    entry = write_entry(
        owner=owner_within(reader, "agent"), path="a.md", content="one", author=author
    )
    shown = text(page.get(url(entry)))

    assert "Agent, by memory_store" in shown
    assert reverse("chat_session", args=[session.pk]) in shown


def test_memory_of_a_foreign_agent_cannot_be_written_or_exported(page, foreign_workspace):
    foreign = factories.agent(foreign_workspace)
    given = {"path": "a.md", "owner": f"agent:{foreign.pk}", "content": "x"}

    assert page.post("/memory/new/", given).status_code == 400
    assert page.get(f"/memory/export/?of=agent:{foreign.pk}").status_code == 404
    assert not MemoryEntry.objects.exists()
