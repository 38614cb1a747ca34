"""An agent's memory is exported as Markdown files and imported whole, or not at all."""

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


def exported(api, agent) -> bytes:
    answer = api.get(f"{EXPORT}?agent={agent.pk}")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/zip"
    return b"".join(answer.streaming_content)


def imported(api, agent, raw: bytes, **asked):
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    where = f"{IMPORT}?agent={agent.pk}&{query}"
    return api.post(where, raw, content_type="application/zip")


def files_in(raw: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def packed(files: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def kept(agent) -> dict[str, tuple]:
    rows = MemoryEntry.objects.filter(agent=agent).select_related("current")
    return {
        row.path: (row.current.content, row.pinned, row.never_recall, row.trust) for row in rows
    }


def test_a_memory_comes_back_the_same_for_another_agent(api, agent, workspace, remember):
    remember("MEMORY.md", "# Me\nI like kettles.\n", pinned=True)
    remember("learnings/tricky.md", TRICKY)
    remember("secret.md", "hush", never_recall=True, trust=MemoryEntry.Trust.UNTRUSTED)
    remember("empty.md", "")
    remember("house.md", "not the agent's", scope="workspace")
    other = factories.agent(workspace)
    answer = imported(api, other, exported(api, agent))

    assert answer.status_code == 200, answer.json()
    assert answer.json() == {"created": 4, "changed": 0, "unchanged": 0}
    assert kept(other) == kept(agent)
    assert set(kept(other)) == {"MEMORY.md", "learnings/tricky.md", "secret.md", "empty.md"}
    assert MemoryVersion.objects.filter(entry__agent=other, author="import").count() == 4


def test_files_edited_by_hand_become_versions_and_untouched_ones_do_not(api, agent, remember):
    remember("a.md", "one")
    remember("b.md", "two")
    files = files_in(exported(api, agent))
    files["a.md"] = files["a.md"].replace("\none", "\nONE")
    files["new.md"] = "three"
    files["__MACOSX/a.md"] = "clutter"
    answer = imported(api, agent, packed(files))

    assert answer.json() == {"created": 1, "changed": 1, "unchanged": 1}
    assert kept(agent)["a.md"][0] == "ONE"
    assert MemoryVersion.objects.filter(entry__path="b.md").count() == 1


def test_a_document_that_changed_since_its_export_is_a_conflict_and_nothing_is_written(
    api, agent, remember
):
    remember("a.md", "one")
    remember("b.md", "two")
    files = files_in(exported(api, agent))
    remember("b.md", "changed by the agent")
    raw = packed({name: text + " by hand" for name, text in files.items()})
    answer = imported(api, agent, raw)

    assert answer.status_code == 409
    assert "b.md has changed" in answer.json()["detail"]
    assert kept(agent)["a.md"][0] == "one"
    assert kept(agent)["b.md"][0] == "changed by the agent"
    assert imported(api, agent, raw, overwrite="true").json()["changed"] == 2


def test_one_bad_file_keeps_all_of_them_out(api, agent):
    answer = imported(api, agent, packed({"a.md": "fine", "b.md": b"\xff\xfe\x00bad"}))

    assert answer.status_code == 400
    assert "b.md is not a UTF-8" in answer.json()["detail"]
    assert kept(agent) == {}


@pytest.mark.parametrize("name", ["../up.md", "/etc/passwd", "a/../../b.md", "C:\\x.md", "a//b.md"])
def test_a_name_that_leads_out_of_the_folder_is_refused(api, agent, name):
    assert imported(api, agent, packed({name: "x"})).status_code == 400
    assert kept(agent) == {}


def test_a_link_is_refused(api, agent):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        link = zipfile.ZipInfo("a.md")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")

    assert "is a link" in imported(api, agent, out.getvalue()).json()["detail"]


def test_an_archive_is_bounded_in_every_way(api, agent, monkeypatch):
    bomb = packed({"a.md": "0" * 50_000_000})
    assert len(bomb) < 100_000
    assert "more than 100,000 bytes" in imported(api, agent, bomb).json()["detail"]

    monkeypatch.setattr(unpacking, "MOST_FILES", 3)
    many = packed({f"{number}.md": "x" for number in range(4)})
    assert "at most 3 files" in imported(api, agent, many).json()["detail"]
    monkeypatch.setattr(unpacking, "MOST_UNPACKED", 10)
    assert "in total" in imported(api, agent, packed({"a": "x" * 9, "b": "y" * 9})).json()["detail"]


@pytest.mark.parametrize(
    "raw", [b"", b"not a zip", packed({"a.md": "x"})[:-30]], ids=["empty", "words", "cut off"]
)
def test_what_is_no_zip_is_refused(api, agent, raw):
    assert imported(api, agent, raw).status_code == 400


def test_a_form_may_carry_the_file(api, agent):
    file = SimpleUploadedFile("memory.zip", packed({"a.md": "x"}), "application/zip")
    answer = api.post(f"{IMPORT}?agent={agent.pk}", {"file": file}, format="multipart")

    assert answer.json()["created"] == 1
    empty = api.post(f"{IMPORT}?agent={agent.pk}", {"x": "y"}, format="multipart")
    assert empty.status_code == 400


def test_a_stranger_takes_and_brings_nothing(foreign_api, agent, remember):
    remember("a.md", "one")

    assert foreign_api.get(f"{EXPORT}?agent={agent.pk}").status_code == 404
    assert imported(foreign_api, agent, packed({"a.md": "x"})).status_code == 404


def test_an_import_does_not_make_trusted_what_was_not(api, agent, workspace):
    reader = Reader(workspace_id=workspace.pk, agent_id=agent.pk)
    remember_for(reader, "a.md", "page", trust=MemoryEntry.Trust.UNTRUSTED)
    files = files_in(exported(api, agent))
    raw = packed({"a.md": files["a.md"].replace("untrusted", "trusted")})

    assert imported(api, agent, raw).status_code == 200
    assert kept(agent)["a.md"][3] == "untrusted"


@pytest.mark.parametrize(
    "content", ["", "x", "---", "---\n", "---\npinned: true\n", "---\n---\n", TRICKY, "\ufeffx"]
)
def test_front_matter_comes_off_as_it_went_on(content):
    matter = FrontMatter(pinned=True, hash="0" * 64)

    assert without_front_matter(with_front_matter(matter, content)) == (matter, content)
