"""Tests that no tool reaches a file outside the session's folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from core.ids import uuid7
from tools_app.exceptions import ToolFailed
from tools_app.files import SessionFolder, sandbox_gid, sandbox_uid, split_path

SECRET = "the secret of somebody else"


@pytest.fixture
def outside(data_dir: Path) -> Path:
    folder = data_dir / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


def all_calls(path: str) -> list[tuple[str, dict[str, str]]]:
    return [
        ("read", {"path": path}),
        ("write", {"path": path, "content": "overwritten"}),
        ("edit", {"path": path, "old": "secret", "new": "overwritten"}),
    ]


def assert_refused(call, path: str) -> None:
    for name, arguments in all_calls(path):
        with pytest.raises(ToolFailed) as caught:
            call(name, **arguments)
        assert SECRET not in caught.value.detail


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "~/secret.txt",
        "~root/secret.txt",
        "/workspace/../secret.txt",
        "/workspace/..",
        "/workspaces/secret.txt",
        "..",
        "./..//secret.txt",
    ],
)
def test_a_path_cannot_leave_the_folder(call, files, path):
    (files / "a").mkdir()
    (files.parent / "secret.txt").write_text(SECRET)

    assert_refused(call, path)
    with pytest.raises(ToolFailed):
        call("list_directory", path=path)


@pytest.mark.parametrize("path", ["a\ud800", "a\0b"])
def test_a_name_that_the_file_system_cannot_store_is_refused(path):
    with pytest.raises(ToolFailed, match="not a valid path"):
        split_path(path)


def test_a_link_to_a_file_is_not_followed(call, files, outside):
    (files / "link.txt").symlink_to(outside / "secret.txt")

    assert_refused(call, "link.txt")

    assert (outside / "secret.txt").read_text() == SECRET


def test_a_link_to_a_folder_is_not_followed(call, files, outside):
    (files / "link").symlink_to(outside)
    (files / "way").mkdir()
    (files / "way" / "up").symlink_to("../..")

    assert_refused(call, "link/secret.txt")
    assert_refused(call, "way/up/secret.txt")
    with pytest.raises(ToolFailed, match="is a link"):
        call("list_directory", path="link")
    with pytest.raises(ToolFailed, match="is a link"):
        call("write", path="link/new.txt", content="x")
    assert os.listdir(outside) == ["secret.txt"]


def test_writing_to_a_hard_link_leaves_the_original_unchanged(call, files, outside):
    os.link(outside / "secret.txt", files / "second.txt")
    os.chown(outside / "secret.txt", sandbox_uid(), sandbox_gid())

    call("write", path="second.txt", content="mine")

    assert (outside / "secret.txt").read_text() == SECRET
    assert (files / "second.txt").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of two owners")
def test_a_hard_link_to_a_file_of_another_owner_is_refused(call, files, outside):
    os.link(outside / "secret.txt", files / "second.txt")

    assert_refused(call, "second.txt")


def test_a_session_cannot_read_the_files_of_another(call, folder, files):
    other = SessionFolder(workspace_id=folder.workspace_id, session_id=uuid7())
    (other.make() / "secret.txt").write_text(SECRET)

    assert_refused(call, f"../../{other.session_id}/workspace/secret.txt")
    assert_refused(call, str(other.files / "secret.txt"))
    assert call("list_directory") == ". is empty."


@contextmanager
def swapping(swap: Callable[[], None]) -> Iterator[None]:
    """Call `swap` in a loop on another thread while the block runs."""
    done = Event()

    def swap_until_done() -> None:
        while not done.is_set():
            swap()

    swapper = Thread(target=swap_until_done)
    swapper.start()
    try:
        yield
    finally:
        done.set()
        swapper.join()


def call_repeatedly(
    call, calls: list[tuple[str, dict[str, str]]], *, rounds: int, until: set[str]
) -> set[str]:
    """Return the answers of this many rounds, and of more until these answers are among them."""
    seen: set[str] = set()
    for count in range(rounds * 40):
        if count >= rounds and until <= seen:
            break
        for name, arguments in calls:
            try:
                seen.add(call(name, **arguments))
            except ToolFailed:
                seen.add("refused")
    return seen


def test_swapping_a_folder_for_a_link_during_a_walk_does_not_escape(call, files, outside):
    inside = files / "swapped"
    inside.mkdir()
    (inside / "secret.txt").write_text("inside")
    (files / "link").symlink_to(outside)

    def swap() -> None:
        os.rename(inside, files / "aside")
        os.rename(files / "link", inside)
        os.rename(inside, files / "link")
        os.rename(files / "aside", inside)

    calls = [
        ("read", {"path": "swapped/secret.txt"}),
        ("list_directory", {"path": "swapped"}),
        ("edit", {"path": "swapped/secret.txt", "old": "i", "new": "i"}),
    ]
    (outside / "only_here.txt").touch()
    with swapping(swap):
        seen = call_repeatedly(call, calls, rounds=150, until={"refused", "inside"})

    assert not any(SECRET in answer or "only_here" in answer for answer in seen)
    assert {"refused", "inside"} <= seen
    assert (outside / "secret.txt").read_text() == SECRET


def test_swapping_a_file_for_a_link_does_not_escape(call, files, outside):
    target = files / "swapped.txt"
    target.write_text("inside")

    def swap() -> None:
        (files / "link").symlink_to(outside / "secret.txt")
        os.rename(files / "link", target)
        (files / "plain").write_text("inside")
        os.rename(files / "plain", target)

    with swapping(swap):
        seen = call_repeatedly(call, all_calls("swapped.txt"), rounds=150, until={"refused"})

    assert not any(SECRET in answer for answer in seen)
    assert "refused" in seen
    assert (outside / "secret.txt").read_text() == SECRET
