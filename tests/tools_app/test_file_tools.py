"""Tests of the tools that read, write, edit and list the files of a session."""

from __future__ import annotations

import os
import stat

import pytest

from tools_app.builtin import files as reading
from tools_app.exceptions import ToolFailed
from tools_app.files import sandbox_uid, write_stream


def test_a_written_file_can_be_read(call, files):
    assert call("write", path="notes/today.md", content="Zoë\n") == (
        "Created notes/today.md (5 bytes)."
    )
    assert call("read", path="notes/today.md") == "Zoë\n"
    assert call("write", path="notes/today.md", content="") == (
        "Replaced notes/today.md (0 bytes)."
    )
    assert call("read", path="notes/today.md") == "[notes/today.md is empty]"


def test_files_and_folders_belong_to_the_sandbox_user(call, files):
    call("write", path="a/b/c.txt", content="x")

    for path in (files, files / "a", files / "a" / "b", files / "a" / "b" / "c.txt"):
        assert path.stat().st_uid == sandbox_uid()
    assert stat.S_IMODE(files.stat().st_mode) == 0o700


def test_absolute_paths_in_the_sandbox_are_accepted(call, files):
    call("write", path="/workspace/a.txt", content="inside")

    assert (files / "a.txt").read_text() == "inside"
    assert call("read", path="./a.txt") == "inside"


def test_a_range_of_lines_ends_with_a_note_about_what_follows(call, files):
    (files / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 101)))

    assert call("read", path="long.txt", first_line=99) == (
        "line 99\nline 100\n\n[lines 99-100, the end of the file]"
    )
    assert call("read", path="long.txt", first_line=2, lines=2) == (
        "line 2\nline 3\n\n[lines 2-3; there is more, from first_line=4]"
    )
    assert call("read", path="long.txt", lines=100).endswith("line 100\n")
    with pytest.raises(ToolFailed, match="fewer than 101 lines"):
        call("read", path="long.txt", first_line=101)
    with pytest.raises(ToolFailed, match="fewer lines than that"):
        call("read", path="long.txt", first_line=200)


def test_a_huge_line_is_cut_with_a_note(call, files):
    (files / "huge.txt").write_bytes(b"x" * (reading.LARGEST_ANSWER * 3))

    answer = call("read", path="huge.txt")

    assert len(answer) < reading.LARGEST_ANSWER + 200
    assert answer.endswith("[lines 1-1; the answer is full, line 1 may be cut]")


def test_a_huge_file_is_searched_only_up_to_a_limit(call, files, monkeypatch):
    monkeypatch.setattr(reading, "FARTHEST", 1_000_000)
    with (files / "sparse.bin").open("wb") as file:
        file.write(b"a" * 10_000)
        file.truncate(10_000_000_000)

    with pytest.raises(ToolFailed, match="too large to read that far"):
        call("read", path="sparse.bin", first_line=2)


def test_a_binary_file_is_refused(call, files):
    (files / "logo.png").write_bytes(b"\xfe\x00 binary")

    with pytest.raises(ToolFailed, match=r"logo.png is a binary file \(9 bytes\)"):
        call("read", path="logo.png")
    with pytest.raises(ToolFailed, match=r"logo.png is not a UTF-8 text file"):
        call("edit", path="logo.png", old="PNG", new="GIF")


def test_text_in_another_encoding_is_shown_with_replacement_characters(call, files):
    (files / "old.txt").write_bytes("Grüße\n".encode("latin-1"))

    assert call("read", path="old.txt") == "Gr\ufffd\ufffde\n"


def test_a_streamed_write_replaces_a_file_and_keeps_its_mode(folder, files):
    script = files / "run.sh"
    script.write_text("echo one")
    script.chmod(0o755)

    assert write_stream(folder, "run.sh", [b"echo ", b"two"]) is False

    assert script.read_text() == "echo two"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755


def test_an_edit_replaces_one_occurrence_and_keeps_the_mode(call, files):
    script = files / "run.sh"
    script.write_bytes(b"one\r\ntwo\r\n")
    script.chmod(0o755)

    assert call("edit", path="run.sh", old="two", new="2") == "Replaced 1 occurrence in run.sh."

    assert script.read_bytes() == b"one\r\n2\r\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755


def test_an_ambiguous_edit_changes_nothing(call, files):
    (files / "a.txt").write_text("x x x")

    with pytest.raises(ToolFailed, match="occurs 3 times"):
        call("edit", path="a.txt", old="x", new="y")
    with pytest.raises(ToolFailed, match="does not occur"):
        call("edit", path="a.txt", old="z", new="y")
    assert (files / "a.txt").read_text() == "x x x"

    call("edit", path="a.txt", old="x", new="y", replace_all=True)
    assert (files / "a.txt").read_text() == "y y y"


def test_an_edit_detects_a_concurrent_change(call, files, monkeypatch):
    target = files / "a.txt"
    target.write_text("before")
    from tools_app.builtin import files as tools

    def change_then_encode(text):
        target.write_text("changed by a command")
        return text.encode()

    monkeypatch.setattr(tools, "_encoded", change_then_encode)

    with pytest.raises(ToolFailed, match="was changed meanwhile"):
        call("edit", path="a.txt", old="before", new="after")
    assert target.read_text() == "changed by a command"


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file(call, files, monkeypatch):
    call("write", path="a.txt", content="old")

    def fail_with_disk_full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_with_disk_full)

    with pytest.raises(ToolFailed, match=r"a.txt: No space left on device"):
        call("write", path="a.txt", content="new")
    assert os.listdir(files) == ["a.txt"]
    assert (files / "a.txt").read_text() == "old"


def test_a_folder_is_listed_with_folders_first(call, files):
    (files / "b.txt").write_text("1234")
    (files / "z").mkdir()
    (files / "link").symlink_to("/etc/passwd")
    os.mkfifo(files / "pipe")
    (files / "new\nline").touch()

    assert call("list_directory").splitlines() == [
        "z/",
        "b.txt (4 bytes)",
        "link -> /etc/passwd",
        "new\ufffdline (0 bytes)",
        "pipe (not a regular file)",
    ]
    assert call("list_directory", path="z") == "z is empty."


def test_a_long_listing_is_cut_with_a_note(call, files):
    for number in range(501):
        (files / f"{number}.txt").touch()

    lines = call("list_directory").splitlines()

    assert len(lines) == 501
    assert lines[-1] == "[… and more: only 500 are shown]"


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("read", {"path": "missing.txt"}, "missing.txt: No such file or directory"),
        ("read", {"path": "folder"}, "folder is a folder"),
        ("read", {"path": "."}, ". is a folder"),
        ("write", {"path": "folder", "content": ""}, "folder is a folder"),
        ("write", {"path": "file.txt/x", "content": ""}, "file.txt: Not a directory"),
        ("list_directory", {"path": "file.txt"}, "file.txt: Not a directory"),
        ("read", {"path": "pipe"}, "pipe is not a regular file"),
        ("read", {"path": "a\0b"}, "not a valid path"),
        ("read", {"path": "a\ud800"}, "path: Input should be a valid string"),
        ("read", {"path": "x" * 300}, "not a valid path"),
        ("write", {"path": "x/" * 100 + "y", "content": ""}, "not a valid path"),
    ],
)
def test_an_impossible_call_is_reported_to_the_model(call, files, name, arguments, complaint):
    (files / "folder").mkdir()
    (files / "file.txt").touch()
    os.mkfifo(files / "pipe")

    with pytest.raises(ToolFailed) as caught:
        call(name, **arguments)

    assert complaint in caught.value.detail


def test_an_attached_file_is_found_by_the_name_that_people_type(call, files):
    for place, content in (("a1", "old"), ("b2", "new")):
        folder = files / "uploads" / place
        folder.mkdir(parents=True)
        (folder / "Plan.md").write_text(content)
    os.utime(files / "uploads" / "a1" / "Plan.md", (1, 1))

    assert call("read", path="Plan.md") == "new"
    assert call("read", path="plan.MD") == "new"
    call("edit", path="plan.md", old="new", new="newer")
    assert (files / "uploads" / "b2" / "Plan.md").read_text() == "newer"


def test_a_file_of_the_workspace_comes_before_an_attached_one(call, files):
    (files / "uploads" / "a1").mkdir(parents=True)
    (files / "uploads" / "a1" / "plan.md").write_text("attached")
    (files / "plan.md").write_text("own")

    assert call("read", path="plan.md") == "own"
    with pytest.raises(ToolFailed):
        call("read", path="notes/plan.md")
    with pytest.raises(ToolFailed):
        call("read", path="missing.md")
