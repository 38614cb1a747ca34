"""An export can be unpacked by any tool on any system, edited there, and imported again."""

from __future__ import annotations

import io
import zipfile

import pytest

from core.exceptions import Invalid
from memory.archive import (
    FrontMatter,
    file_names,
    read_archive,
    with_front_matter,
    without_front_matter,
)
from tests import factories
from tests.memory.test_archive import exported, files_in, imported, kept, packed

#: What one file system or another takes for one name, or cannot hold beside each other.
CLASHING = [
    "Notes.md",
    "notes.md",
    "plan",
    "plan/a.md",
    "PLAN/b.md",
    "Straße.md",
    "STRASSE.md",
]


def test_no_two_documents_meet_in_one_file_and_all_come_back(api, agent, remember, workspace):
    for path in CLASHING:
        remember(path, f"this is {path}")
    raw = exported(api, agent)

    names = [name.casefold() for name in files_in(raw)]
    assert len(set(names)) == len(CLASHING)
    folders = {name.rpartition("/")[0] for name in names if "/" in name}
    assert folders.isdisjoint(names)
    assert len({name.split("/")[0] for name in files_in(raw) if name.startswith(("p", "P"))}) == 2
    other = factories.agent(workspace)
    assert imported(api, other, raw).json()["created"] == len(CLASHING)
    assert kept(other) == kept(agent)
    assert imported(api, agent, raw).json()["unchanged"] == len(CLASHING)


def test_plain_names_stay_as_they_are():
    paths = ["MEMORY.md", "daily/2026-01-01.md", "learnings/a.md", "日本/語.md"]

    assert file_names(paths) == dict(zip(paths, paths, strict=True))


def test_a_path_in_a_file_is_checked_like_any_other(api, agent):
    evil = with_front_matter(FrontMatter(path="../up.md", hash="0" * 64), "x")

    assert imported(api, agent, packed({"a.md": evil})).status_code == 400
    assert kept(agent) == {}


def test_names_of_a_tool_that_does_not_say_that_they_are_utf8_are_read_right(api, agent):
    """Zip files as macOS's Finder does."""
    raw = packed({"büro/日本.md": "x"})
    for where in (6, raw.rindex(b"PK\x01\x02") + 8):
        flags = int.from_bytes(raw[where : where + 2], "little") & ~0x800
        raw = raw[:where] + flags.to_bytes(2, "little") + raw[where + 2 :]
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert "日本" not in archive.namelist()[0]

    assert imported(api, agent, raw).status_code == 200
    assert list(kept(agent)) == ["büro/日本.md"]


@pytest.mark.parametrize("copy", ["", " 2", " (1)"])
def test_a_folder_that_was_unpacked_edited_and_packed_again_is_the_same_memory(
    api, agent, remember, copy
):
    remember("MEMORY.md", "one")
    remember("learnings/a.md", "two")
    folder = f"memory-{agent.pk}{copy}"
    files = {f"{folder}/{name}": text for name, text in files_in(exported(api, agent)).items()}
    files[f"{folder}/MEMORY.md"] = files[f"{folder}/MEMORY.md"].replace("one", "edited")
    done = imported(api, agent, packed({**files, "__MACOSX/._x": b"\xff"}))

    assert done.json() == {"created": 0, "changed": 1, "unchanged": 1}
    assert kept(agent)["MEMORY.md"][0] == "edited"


def test_a_folder_of_ones_own_stays_a_folder(api, agent):
    assert imported(api, agent, packed({"memory/a.md": "x", "memory/b.md": "y"})).status_code == 200
    assert set(kept(agent)) == {"memory/a.md", "memory/b.md"}


def test_what_an_editor_adds_to_the_head_stays_in_the_text(api, agent, remember):
    remember("a.md", "one\n", pinned=True)
    text = files_in(exported(api, agent))["a.md"]
    edited = text.replace("---\npinned", "---\ntags:\n  - kettle\npinned").replace("one", "two")
    assert imported(api, agent, packed({"a.md": edited})).json()["changed"] == 1

    assert kept(agent)["a.md"][:2] == ("---\ntags:\n  - kettle\n---\ntwo\n", True)
    # Once more, over the same documents.
    again = files_in(exported(api, agent))["a.md"]
    assert without_front_matter(again)[1] == "---\ntags:\n  - kettle\n---\ntwo\n"


def broken(raw: bytes) -> list[bytes]:
    """Yield every text with one byte removed or replaced."""
    ways = [raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :] for at in range(len(raw))]
    return ways + [raw[:at] + raw[at + 1 :] for at in range(0, len(raw), 7)]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_broken_archive_is_refused_and_breaks_nothing(method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("bü.md", "some words " * 30)
    refused = 0
    for raw in broken(out.getvalue()):
        try:
            read_archive(io.BytesIO(raw))
        except Invalid:
            refused += 1
    assert refused > 50
