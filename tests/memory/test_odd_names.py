"""Tests that an export can be unpacked on any system, edited, and imported again."""

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
from tests.memory.test_archive import export, files_in, import_zip, make_zip, stored

#: Names that some file system treats as equal or cannot store next to each other.
CLASHING = [
    "Notes.md",
    "notes.md",
    "plan",
    "plan/a.md",
    "PLAN/b.md",
    "Straße.md",
    "STRASSE.md",
]


def test_clashing_names_are_exported_to_separate_files_and_imported_again(
    api, agent, remember, workspace
):
    for path in CLASHING:
        remember(path, f"this is {path}")
    raw = export(api, agent)

    names = [name.casefold() for name in files_in(raw)]
    assert len(set(names)) == len(CLASHING)
    folders = {name.rpartition("/")[0] for name in names if "/" in name}
    assert folders.isdisjoint(names)
    assert len({name.split("/")[0] for name in files_in(raw) if name.startswith(("p", "P"))}) == 2
    other = factories.agent(workspace)
    assert import_zip(api, other, raw).json()["created"] == len(CLASHING)
    assert stored(other) == stored(agent)
    assert import_zip(api, agent, raw).json()["unchanged"] == len(CLASHING)


def test_plain_names_are_unchanged():
    paths = ["MEMORY.md", "daily/2026-01-01.md", "learnings/a.md", "日本/語.md"]

    assert file_names(paths) == dict(zip(paths, paths, strict=True))


def test_a_path_in_front_matter_is_validated(api, agent):
    evil = with_front_matter(FrontMatter(path="../up.md", hash="0" * 64), "x")

    assert import_zip(api, agent, make_zip({"a.md": evil})).status_code == 400
    assert stored(agent) == {}


def test_utf8_names_without_the_utf8_flag_are_decoded(api, agent):
    """The Finder of macOS writes such archives."""
    raw = make_zip({"büro/日本.md": "x"})
    for where in (6, raw.rindex(b"PK\x01\x02") + 8):
        flags = int.from_bytes(raw[where : where + 2], "little") & ~0x800
        raw = raw[:where] + flags.to_bytes(2, "little") + raw[where + 2 :]
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert "日本" not in archive.namelist()[0]

    assert import_zip(api, agent, raw).status_code == 200
    assert list(stored(agent)) == ["büro/日本.md"]


@pytest.mark.parametrize("copy", ["", " 2", " (1)"])
def test_an_export_that_was_unpacked_edited_and_zipped_again_can_be_imported(
    api, agent, remember, copy
):
    remember("MEMORY.md", "one")
    remember("learnings/a.md", "two")
    folder = f"memory-{agent.pk}{copy}"
    files = {f"{folder}/{name}": text for name, text in files_in(export(api, agent)).items()}
    files[f"{folder}/MEMORY.md"] = files[f"{folder}/MEMORY.md"].replace("one", "edited")
    done = import_zip(api, agent, make_zip({**files, "__MACOSX/._x": b"\xff"}))

    assert done.json() == {"created": 0, "changed": 1, "unchanged": 1}
    assert stored(agent)["MEMORY.md"][0] == "edited"


def test_a_users_own_top_level_folder_is_kept(api, agent):
    assert (
        import_zip(api, agent, make_zip({"memory/a.md": "x", "memory/b.md": "y"})).status_code
        == 200
    )
    assert set(stored(agent)) == {"memory/a.md", "memory/b.md"}


def test_foreign_front_matter_stays_in_the_text(api, agent, remember):
    remember("a.md", "one\n", pinned=True)
    text = files_in(export(api, agent))["a.md"]
    edited = text.replace("---\npinned", "---\ntags:\n  - kettle\npinned").replace("one", "two")
    assert import_zip(api, agent, make_zip({"a.md": edited})).json()["changed"] == 1

    assert stored(agent)["a.md"][:2] == ("---\ntags:\n  - kettle\n---\ntwo\n", True)
    # A second export keeps it too.
    again = files_in(export(api, agent))["a.md"]
    assert without_front_matter(again)[1] == "---\ntags:\n  - kettle\n---\ntwo\n"


def corrupted_copies(raw: bytes) -> list[bytes]:
    """Return copies of the archive, each with one byte replaced or removed."""
    ways = [raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :] for at in range(len(raw))]
    return ways + [raw[:at] + raw[at + 1 :] for at in range(0, len(raw), 7)]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_broken_archive_is_refused_and_breaks_nothing(method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("bü.md", "some words " * 30)
    refused = 0
    for raw in corrupted_copies(out.getvalue()):
        try:
            read_archive(io.BytesIO(raw))
        except Invalid:
            refused += 1
    assert refused > 50
