"""Tests of export and import: memory as Markdown files, imported completely or not at all."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Mapping

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from memory import archive as unpacking
from memory.archive import FrontMatter, with_front_matter, without_front_matter
from memory.models import MemoryEntry, MemoryVersion
from memory.ownership import Reader
from tests import factories
from tests.memory.conftest import remember_for

EXPORT, IMPORT = "/api/v1/memory/export/", "/api/v1/memory/import/"
TRICKY = "---\ntitle: mine\n---\n\r\nline \u2028 end\n"


def export(api, agent) -> bytes:
    answer = api.get(f"{EXPORT}?agent={agent.pk}")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/zip"
    return b"".join(answer.streaming_content)


def import_zip(api, agent, raw: bytes, **asked):
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    where = f"{IMPORT}?agent={agent.pk}&{query}"
    return api.post(where, raw, content_type="application/zip")


def files_in(raw: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def make_zip(files: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def stored(agent) -> dict[str, tuple]:
    rows = MemoryEntry.objects.filter(agent=agent).select_related("current")
    return {
        row.path: (row.current.content, row.pinned, row.never_recall, row.trust) for row in rows
    }


def test_an_exported_memory_can_be_imported_for_another_agent(api, agent, workspace, remember):
    remember("MEMORY.md", "# Me\nI like kettles.\n", pinned=True)
    remember("learnings/tricky.md", TRICKY)
    remember("secret.md", "hush", never_recall=True, trust=MemoryEntry.Trust.UNTRUSTED)
    remember("empty.md", "")
    remember("house.md", "not the agent's", scope="workspace")
    other = factories.agent(workspace)
    answer = import_zip(api, other, export(api, agent))

    assert answer.status_code == 200, answer.json()
    assert answer.json() == {"created": 4, "changed": 0, "unchanged": 0}
    assert stored(other) == stored(agent)
    assert set(stored(other)) == {"MEMORY.md", "learnings/tricky.md", "secret.md", "empty.md"}
    assert MemoryVersion.objects.filter(entry__agent=other, author="import").count() == 4


def test_only_edited_files_become_new_versions(api, agent, remember):
    remember("a.md", "one")
    remember("b.md", "two")
    files = files_in(export(api, agent))
    files["a.md"] = files["a.md"].replace("\none", "\nONE")
    files["new.md"] = "three"
    files["__MACOSX/a.md"] = "clutter"
    answer = import_zip(api, agent, make_zip(files))

    assert answer.json() == {"created": 1, "changed": 1, "unchanged": 1}
    assert stored(agent)["a.md"][0] == "ONE"
    assert MemoryVersion.objects.filter(entry__path="b.md").count() == 1


def test_a_document_changed_since_its_export_is_a_conflict_and_nothing_is_written(
    api, agent, remember
):
    remember("a.md", "one")
    remember("b.md", "two")
    files = files_in(export(api, agent))
    remember("b.md", "changed by the agent")
    raw = make_zip({name: text + " by hand" for name, text in files.items()})
    answer = import_zip(api, agent, raw)

    assert answer.status_code == 409
    assert "b.md has changed" in answer.json()["detail"]
    assert stored(agent)["a.md"][0] == "one"
    assert stored(agent)["b.md"][0] == "changed by the agent"
    assert import_zip(api, agent, raw, overwrite="true").json()["changed"] == 2


def test_one_invalid_file_prevents_the_whole_import(api, agent):
    answer = import_zip(api, agent, make_zip({"a.md": "fine", "b.md": b"\xff\xfe\x00bad"}))

    assert answer.status_code == 400
    assert "b.md is not a UTF-8" in answer.json()["detail"]
    assert stored(agent) == {}


@pytest.mark.parametrize("name", ["../up.md", "/etc/passwd", "a/../../b.md", "C:\\x.md", "a//b.md"])
def test_a_name_outside_the_folder_is_refused(api, agent, name):
    assert import_zip(api, agent, make_zip({name: "x"})).status_code == 400
    assert stored(agent) == {}


def test_a_link_is_refused(api, agent):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        link = zipfile.ZipInfo("a.md")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")

    assert "is a link" in import_zip(api, agent, out.getvalue()).json()["detail"]


def test_the_size_of_an_archive_is_limited(api, agent, monkeypatch):
    bomb = make_zip({"a.md": "0" * 50_000_000})
    assert len(bomb) < 100_000
    assert "more than 100,000 bytes" in import_zip(api, agent, bomb).json()["detail"]

    monkeypatch.setattr(unpacking, "MOST_FILES", 3)
    many = make_zip({f"{number}.md": "x" for number in range(4)})
    assert "at most 3 files" in import_zip(api, agent, many).json()["detail"]
    monkeypatch.setattr(unpacking, "MOST_UNPACKED", 10)
    assert (
        "in total"
        in import_zip(api, agent, make_zip({"a": "x" * 9, "b": "y" * 9})).json()["detail"]
    )


@pytest.mark.parametrize(
    "raw",
    [b"", b"not a zip", make_zip({"a.md": "x"})[:-30]],
    ids=["empty", "not a zip", "truncated"],
)
def test_a_file_that_is_not_a_zip_is_refused(api, agent, raw):
    assert import_zip(api, agent, raw).status_code == 400


def test_the_file_can_be_uploaded_as_a_form(api, agent):
    file = SimpleUploadedFile("memory.zip", make_zip({"a.md": "x"}), "application/zip")
    answer = api.post(f"{IMPORT}?agent={agent.pk}", {"file": file}, format="multipart")

    assert answer.json()["created"] == 1
    empty = api.post(f"{IMPORT}?agent={agent.pk}", {"x": "y"}, format="multipart")
    assert empty.status_code == 400


def test_another_workspace_can_neither_export_nor_import(foreign_api, agent, remember):
    remember("a.md", "one")

    assert foreign_api.get(f"{EXPORT}?agent={agent.pk}").status_code == 404
    assert import_zip(foreign_api, agent, make_zip({"a.md": "x"})).status_code == 404


def test_an_import_cannot_make_a_document_trusted(api, agent, workspace):
    reader = Reader(workspace_id=workspace.pk, agent_id=agent.pk)
    remember_for(reader, "a.md", "page", trust=MemoryEntry.Trust.UNTRUSTED)
    files = files_in(export(api, agent))
    raw = make_zip({"a.md": files["a.md"].replace("untrusted", "trusted")})

    assert import_zip(api, agent, raw).status_code == 200
    assert stored(agent)["a.md"][3] == "untrusted"


@pytest.mark.parametrize(
    "content", ["", "x", "---", "---\n", "---\npinned: true\n", "---\n---\n", TRICKY, "\ufeffx"]
)
def test_removing_front_matter_restores_the_content(content):
    matter = FrontMatter(pinned=True, hash="0" * 64)

    assert without_front_matter(with_front_matter(matter, content)) == (matter, content)
