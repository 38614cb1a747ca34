"""Tests of the quotas on files: reserved before bytes are written, and measured again before a refusal."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from core.ids import uuid7
from tools_app import storage
from tools_app.exceptions import DiskFull, QuotaExceeded, ToolFailed
from tools_app.files import SessionFolder, write_stream
from tools_app.storage import MEGABYTE, Usage, account_of, measure, settle


@pytest.fixture(autouse=True)
def quotas(settings, data_dir):
    settings.SESSION_STORAGE_MB, settings.SESSION_STORAGE_FILES = 1, 50
    settings.WORKSPACE_STORAGE_MB, settings.WORKSPACE_STORAGE_FILES = 2, 1_000


def neighbour(folder: SessionFolder) -> SessionFolder:
    return SessionFolder(workspace_id=folder.workspace_id, session_id=uuid7())


def test_a_file_that_exceeds_the_sessions_quota_is_refused_and_leaves_nothing(call, files):
    call("write", path="first", content="x" * 700_000)

    with pytest.raises(QuotaExceeded, match="This session may store 1 MB"):
        call("write", path="second", content="x" * 700_000)

    assert [path.name for path in files.iterdir()] == ["first"]
    assert call("write", path="small", content="x") == "Created small (1 bytes)."


def test_replacing_and_deleting_a_file_gives_its_room_back(call, folder, files):
    for _ in range(5):
        call("write", path="same", content="x" * 400_000)
    (files / "same").unlink()  # as a command would

    assert call("write", path="other", content="x" * 900_000)


def test_the_number_of_files_is_limited(call, settings):
    settings.SESSION_STORAGE_FILES = 5

    for number in range(4):
        call("write", path=f"file{number}", content="x")
    with pytest.raises(QuotaExceeded, match="5 files"):
        call("write", path="one-more", content="x")


def test_the_sessions_of_a_workspace_have_a_quota_together(folder):
    for each in (folder, neighbour(folder)):
        write_stream(each, "big", [b"x" * 900_000])

    with pytest.raises(QuotaExceeded, match="sessions of this workspace may store 2 MB"):
        write_stream(neighbour(folder), "big", [b"x" * 900_000])
    other = SessionFolder(workspace_id=uuid7(), session_id=uuid7())
    assert write_stream(other, "big", [b"x" * 900_000])


def test_a_deleted_session_no_longer_counts_for_its_workspace(folder):
    full = [folder, neighbour(folder)]
    for each in full:
        write_stream(each, "big", [b"x" * 900_000])
    for path in sorted(folder.root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.root.rmdir()

    assert write_stream(neighbour(folder), "big", [b"x" * 900_000])


@pytest.mark.soak(rounds=20)
def test_many_writers_at_once_cannot_pass_the_quota_together(folder, files):
    def write(number: int) -> None:
        try:
            write_stream(folder, f"part{number}", [b"x" * 100_000] * 3)
        except QuotaExceeded:
            return

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 0 < sum(path.stat().st_size for path in files.iterdir()) <= MEGABYTE


def test_measuring_follows_no_link_and_counts_hidden_hard_linked_and_sparse_files(folder, files):
    (files / "hidden").mkdir()
    (files / "hidden" / "data").write_bytes(b"x" * 40_960)
    os.link(files / "hidden" / "data", files / "again")
    (files / "link").symlink_to("/usr")
    with (files / "sparse").open("wb") as file:
        file.truncate(10 * MEGABYTE)
    (files / "hidden").chmod(0)

    used = measure(files)

    assert 40_960 <= used.bytes < 100_000
    assert used.files == 4


def test_folders_too_deep_to_measure_count_as_a_full_session(folder, files):
    here = os.open(files, os.O_RDONLY)
    for _ in range(storage.MAX_DEPTH + 5):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    account = account_of(folder.root)
    assert account
    assert settle(account)[0] == storage.ENDLESS
    subprocess.run(["rm", "-rf", files / "d"], check=True)


def test_a_nearly_full_disk_refuses_writes_with_a_clear_error(call, settings, files):
    call("write", path="kept", content="here")
    settings.DISK_RESERVE_MB = 10**12

    with pytest.raises(DiskFull, match="disk is almost full"):
        call("write", path="new", content="x")
    with pytest.raises(DiskFull):
        call("exec", command="true")

    assert call("read", path="kept") == "here"
    assert [path.name for path in files.iterdir()] == ["kept"]


def test_the_disk_of_the_embedded_database_has_a_reserve_too(data_dir, settings, monkeypatch):
    """Nothing is accepted when only the database's disk is full."""
    full = data_dir / "postgres"
    full.mkdir()
    monkeypatch.setattr(storage, "disk_is_full", lambda folder: folder == full)

    storage.check_disk()
    with pytest.raises(DiskFull, match="disk is almost full"):
        storage.check_disks()


@pytest.mark.django_db
@pytest.mark.parametrize(("limit", "is_full"), [(0, False), (1, True), (10**6, False)])
def test_a_database_elsewhere_has_a_size_that_it_may_reach(data_dir, settings, limit, is_full):
    settings.DATABASE_LIMIT_MB = limit
    storage._database_bytes.forget(None)
    if is_full:
        with pytest.raises(DiskFull, match="size that the operator allows"):
            storage.check_disks()
    else:
        storage.check_disks()


@pytest.fixture
def small_disk(data_dir: Path, settings):
    """Mount a small file system as the folder of all sessions."""
    place = data_dir / "sessions"
    place.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=711", "none", str(place)]
    if os.geteuid() or subprocess.run(options, check=False).returncode:
        pytest.skip("mounting needs root")
    settings.DISK_RESERVE_MB = 0
    settings.SESSION_STORAGE_MB = settings.WORKSPACE_STORAGE_MB = 0
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.soak(rounds=20)
def test_a_disk_that_is_really_full_loses_nothing_and_goes_on_when_there_is_room(
    small_disk, folder, call
):
    call("write", path="kept", content="old content")
    ballast = small_disk / "ballast"
    subprocess.run(["dd", "if=/dev/zero", f"of={ballast}", "bs=64k"], check=False)

    with pytest.raises(ToolFailed, match="No space left"):
        call("write", path="kept", content="y" * 500_000)
    assert call("read", path="kept") == "old content"
    assert [path.name for path in folder.files.iterdir()] == ["kept"]

    ballast.unlink()
    assert call("write", path="kept", content="y" * 500_000)
    assert settle(account_of(folder.root))[0].exceeds(Usage(400_000, 1))
