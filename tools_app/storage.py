"""Bounds what sessions and workspaces store on this machine's disk, checked where bytes are written.

Every session, and the shared folder of every workspace, has an account of its bytes and files in a
small file below DATA_DIR/storage, next to the total of its workspace. What Switchyard itself writes is
reserved first, so it never passes a quota. What commands write is measured while they run. Before
anything is refused, the accounts are measured again: files may have been deleted meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from django.conf import settings

from core.db import TimedCache, prepared_rows
from core.postgres import PGDATA
from tools_app.exceptions import DiskFull, QuotaExceeded

MEGABYTE = 1024 * 1024
BLOCK = 4096
DISK_RESERVE_INODES = 1_000
#: Deeper folders are not measured; a session that has them counts as full.
MAX_DEPTH = 200
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Usage:
    bytes: int = 0
    files: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.bytes + other.bytes, self.files + other.files)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.bytes - other.bytes, self.files - other.files)

    def exceeds(self, most: Usage) -> bool:
        return self.bytes > most.bytes or self.files > most.files


#: More than any quota.
ENDLESS = Usage(1 << 62, 1 << 62)
#: A command in a full session may write this much, so that it can clean up.
GRACE = Usage(4 * MEGABYTE, 100)


# ── The disk ─────────────────────────────────────────────────────────────────


def disk_is_full(folder: Path) -> bool:
    """Return whether the disk of this folder has no more than the reserve left."""
    disk = os.statvfs(folder)
    few_inodes = disk.f_files > 0 and disk.f_favail < DISK_RESERVE_INODES
    return few_inodes or disk.f_bavail * disk.f_frsize < settings.DISK_RESERVE_MB * MEGABYTE


def check_disk(folder: Path | None = None) -> None:
    """Raise DiskFull if the disk of this folder, or of DATA_DIR, has no more than the reserve left."""
    with suppress(FileNotFoundError):
        if disk_is_full(folder or Path(settings.DATA_DIR)):
            raise DiskFull


def check_disks() -> None:
    """Raise DiskFull if there is no room for files, or none in the database."""
    check_disk()
    # The embedded server's folder may be on another disk. Without that server there is no folder.
    check_disk(Path(settings.DATA_DIR, PGDATA))
    if settings.DATABASE_LIMIT_MB and _database_bytes.get(None) > _database_limit():
        raise DiskFull(
            "The database has reached the size that the operator allows, so nothing new is accepted. "
            "Nothing was lost. Ask the operator for more room."
        )


def _database_limit() -> int:
    return int(settings.DATABASE_LIMIT_MB) * MEGABYTE


def _measure_database(key: None) -> int:
    return int(prepared_rows("SELECT pg_database_size(current_database())", [])[0][0])


#: The server reads the sizes of all its files for this, so each process asks seldom.
_database_bytes: TimedCache[None, int] = TimedCache(_measure_database, seconds=30)


def free_space(folder: Path) -> Usage:
    disk = os.statvfs(folder)
    return Usage(disk.f_bfree * disk.f_frsize, disk.f_ffree)


# ── Accounts ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Account:
    """What is counted together: the folder of a session or task, the shared folder, or the parts."""

    workspace_id: str
    name: str
    folder: Path

    @property
    def quota(self) -> Usage:
        return workspace_quota() if self.name in OF_WORKSPACE else session_quota()

    @property
    def ledger(self) -> Path:
        return ledger_dir(self.workspace_id)


SHARED, PARTS, TOTAL = "shared", "parts", "total"
#: Accounts of the workspace, not of a session or task.
OF_WORKSPACE = frozenset({SHARED, PARTS})


def account_of(path: Path) -> Account | None:
    """Return the account that a path below DATA_DIR is counted in."""
    try:
        parts = path.relative_to(settings.DATA_DIR).parts
    except ValueError:
        return None
    match parts:
        case ("sessions", workspace_id, session_id, *_):
            folder = Path(settings.DATA_DIR, "sessions", workspace_id, session_id)
            return Account(workspace_id=workspace_id, name=session_id, folder=folder)
        case ("shared", workspace_id, *_):
            folder = Path(settings.DATA_DIR, "shared", workspace_id)
            return Account(workspace_id=workspace_id, name=SHARED, folder=folder)
        case ("parts", workspace_id, *_):
            folder = Path(settings.DATA_DIR, "parts", workspace_id)
            return Account(workspace_id=workspace_id, name=PARTS, folder=folder)
        case _:
            return None


def ledger_dir(workspace_id: object) -> Path:
    """Return the folder with the accounts of a workspace."""
    return Path(settings.DATA_DIR, "storage", str(workspace_id))


def session_quota() -> Usage:
    return _quota(settings.SESSION_STORAGE_MB, settings.SESSION_STORAGE_FILES)


def workspace_quota() -> Usage:
    return _quota(settings.WORKSPACE_STORAGE_MB, settings.WORKSPACE_STORAGE_FILES)


def _quota(megabytes: int, files: int) -> Usage:
    """Return a quota. Zero stands for no limit."""
    return Usage(megabytes * MEGABYTE or ENDLESS.bytes, files or ENDLESS.files)


def room(account: Account) -> Usage:
    """Return what the account may still store, as far as is known without measuring."""
    with _locked(account):
        own = account.quota - _known(account)
        shared = workspace_quota() - _total(account)
    return Usage(min(own.bytes, shared.bytes), min(own.files, shared.files))


def _reserve(account: Account, wanted: Usage, writing: IO[str]) -> None:
    """Add to the account before the bytes are written. Raise if a quota or the disk does not allow it."""
    check_disk(account.folder if account.folder.exists() else None)
    with _locked(account):
        if (refused := _refusal(account, wanted)) and _writes_alone(writing):
            _measure_again(account)
            refused = _refusal(account, wanted)
        if refused:
            raise QuotaExceeded(refused)
        _add(account, wanted)


def give_back(path: Path, freed: Usage) -> None:
    """Subtract what was deleted, or reserved and not written."""
    if account := account_of(path):
        with _locked(account):
            _add(account, Usage() - freed)


def settle(account: Account) -> tuple[Usage, Usage]:
    """Measure the account; return its usage and that of the whole workspace."""
    measured = measure(account.folder)
    with _locked(account), _writing(account) as writing:
        if not _writes_alone(writing):
            # What others have reserved and not yet written would be lost.
            known = _known(account)
            measured = Usage(max(measured.bytes, known.bytes), max(measured.files, known.files))
        _store(account, measured)
        return measured, _total(account)


def settle_path(path: Path) -> None:
    """Measure the account of a path after much of it was deleted."""
    if account := account_of(path):
        settle(account)


def _refusal(account: Account, wanted: Usage) -> str:
    if account.name not in OF_WORKSPACE and (_known(account) + wanted).exceeds(account.quota):
        return f"This session may store {_described(account.quota)}. Delete files that you do not need."
    if (_total(account) + wanted).exceeds(workspace_quota()):
        return (
            f"The sessions of this workspace may store {_described(workspace_quota())} together. "
            "Delete files that are not needed."
        )
    return ""


def _described(quota: Usage) -> str:
    parts = []
    if quota.bytes != ENDLESS.bytes:
        parts.append(f"{quota.bytes // MEGABYTE:,} MB")
    if quota.files != ENDLESS.files:
        parts.append(f"{quota.files:,} files")
    return " and ".join(parts)


def _measure_again(account: Account) -> None:
    """Measure this account, and sum up the accounts of the workspace."""
    _store(account, measure(account.folder))
    _write(account, TOTAL, _sum(account))


def _add(account: Account, more: Usage) -> None:
    _store(account, _known(account) + more)


def _store(account: Account, usage: Usage) -> None:
    """Store the usage of an account, and the change in the total of its workspace."""
    usage = Usage(max(0, usage.bytes), max(0, usage.files))
    # The total comes first: a process that dies in between leaves it too high, and a total that is
    # too high is summed up again before anything is refused.
    _write(account, TOTAL, _total(account) + usage - _known(account))
    _write(account, account.name, usage)


def _known(account: Account) -> Usage:
    known = _read(account, account.name)
    if known is None:
        known = measure(account.folder)
        if total := _read(account, TOTAL):
            _write(account, TOTAL, total + known)
        _write(account, account.name, known)
    return known


def _total(account: Account) -> Usage:
    total = _read(account, TOTAL)
    if total is None:
        total = _sum(account)
        _write(account, TOTAL, total)
    return total


def _sum(account: Account) -> Usage:
    """Sum up the accounts whose folders exist; measure those that were never measured."""
    total = Usage()
    folders = [Path(settings.DATA_DIR, name, account.workspace_id) for name in (SHARED, PARTS)]
    with suppress(FileNotFoundError):
        folders += Path(settings.DATA_DIR, "sessions", account.workspace_id).iterdir()
    for folder in folders:
        other = account_of(folder)
        if other and folder.exists():
            usage = _read(other, other.name)
            if usage is None:
                usage = measure(folder)
                _write(other, other.name, usage)
            total += usage
    return total


def _read(account: Account, name: str) -> Usage | None:
    try:
        numbers = (account.ledger / name).read_text().split()
        return Usage(int(numbers[0]), int(numbers[1]))
    except (FileNotFoundError, ValueError, IndexError):
        return None


def _write(account: Account, name: str, usage: Usage) -> None:
    path = account.ledger / name
    try:
        path.write_text(f"{usage.bytes} {usage.files}\n")
    except OSError:
        # The disk is full. What is missing here is measured again when it is needed.
        path.unlink(missing_ok=True)


@contextmanager
def _locked(account: Account) -> Iterator[None]:
    """Lock the accounts of the workspace against other processes of this machine."""
    account.ledger.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (account.ledger / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _writing(account: Account) -> IO[str]:
    """Open the file that is locked, with others, while something is written for an account."""
    file = (account.ledger / f"{account.name}.writing").open("w")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def _writes_alone(writing: IO[str]) -> bool:
    """Return whether no other process or thread writes for the account, so that it can be measured."""
    try:
        fcntl.flock(writing, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # Trying to get the lock alone has released the one that was held.
        fcntl.flock(writing, fcntl.LOCK_SH)
        return False
    fcntl.flock(writing, fcntl.LOCK_SH)
    return True


@dataclass(kw_only=True)
class Reservation:
    """Reserves bytes as they come, before they are written."""

    account: Account | None
    writing: IO[str] | None
    held: Usage = Usage()

    def take(self, count: int, *, files: int = 0) -> None:
        """Reserve bytes. Raise QuotaExceeded or DiskFull if they must not be written."""
        if self.account and self.writing:
            wanted = Usage(count, files)
            _reserve(self.account, wanted, self.writing)
            self.held += wanted

    def cancel(self) -> None:
        """Give everything back."""
        if self.account and self.held != Usage():
            give_back(self.account.folder, self.held)
        self.held = Usage()


@contextmanager
def reserving(path: Path) -> Iterator[Reservation]:
    """Yield a reservation for what is written below this path. A block that fails gives it back."""
    account = account_of(path)
    with ExitStack() as stack:
        writing = None
        if account:
            account.ledger.mkdir(mode=0o700, parents=True, exist_ok=True)
            writing = stack.enter_context(_writing(account))
        reservation = Reservation(account=account, writing=writing)
        try:
            yield reservation
        except BaseException:
            reservation.cancel()
            raise


# ── Measuring ────────────────────────────────────────────────────────────────


def measure(folder: Path) -> Usage:
    """Return the blocks and the number of everything in a folder. Links are not followed."""
    counter = _Counter()
    try:
        here = os.open(folder, OPEN_FOLDER)
    except FileNotFoundError:
        return Usage()
    try:
        counter.count(here, 1)
    except RecursionError:
        return ENDLESS
    finally:
        os.close(here)
    return Usage(counter.bytes, counter.files)


class _Counter:
    def __init__(self) -> None:
        self.bytes = self.files = 0
        #: Files with several names, which are counted once.
        self._linked: set[tuple[int, int]] = set()

    def count(self, here: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise RecursionError
        with os.scandir(here) as entries:
            for entry in entries:
                with suppress(FileNotFoundError, NotADirectoryError):
                    self._count_entry(here, entry, depth)

    def _count_entry(self, here: int, entry: os.DirEntry[str], depth: int) -> None:
        seen = entry.stat(follow_symlinks=False)
        identity = (seen.st_dev, seen.st_ino)
        if not stat.S_ISDIR(seen.st_mode) and seen.st_nlink > 1:
            if identity in self._linked:
                return
            self._linked.add(identity)
        self.files += 1
        self.bytes += seen.st_blocks * 512
        if stat.S_ISDIR(seen.st_mode):
            below = _open_below(here, entry.name)
            try:
                self.count(below, depth + 1)
            finally:
                os.close(below)


def _open_below(here: int, name: str) -> int:
    """Open a folder. One that a command has made unreadable is made readable to its owner first."""
    try:
        return os.open(name, OPEN_FOLDER, dir_fd=here)
    except PermissionError:
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        try:
            # The descriptor pins the folder, so that no link can take its place.
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
        finally:
            os.close(fd)
        return os.open(name, OPEN_FOLDER, dir_fd=here)


# ── Commands ─────────────────────────────────────────────────────────────────

#: A measurement may take at most this part of the time between two of them.
SHARE = 10
#: An account that was measured longer ago than this is measured again after a command.
STALE_SECONDS = 60.0
#: A command that has used less of the disk than this is not worth a measurement.
NOTABLE = Usage(MEGABYTE, 50)


class StorageWatch:
    """Measures what a command stores while it runs.

    The free space of the disk is read at every look. The folder itself is measured when more than
    its room has disappeared from the disk, and otherwise so often that it takes a tenth of the time.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        found = {account for path in paths if (account := account_of(path))}
        self._accounts = sorted(found, key=lambda account: account.name)
        self._first = {account: _first_usage(account) for account in self._accounts}
        self.room = _smallest([room(account) for account in self._accounts])
        self._look()

    @property
    def file_mb(self) -> int:
        """The size of the largest file that there is room for."""
        return max(GRACE.bytes, self.room.bytes) // MEGABYTE

    def exceeded(self) -> bool:
        """Return whether the command must end: the disk is full, or it stores too much."""
        if any(disk_is_full(a.folder) for a in self._accounts if a.folder.exists()):
            return True
        return self._is_due() and self._measure()

    def finish(self) -> None:
        """Store what the accounts hold after the command."""
        for account in self._accounts:
            if self._gone().exceeds(NOTABLE) or _age(account) > STALE_SECONDS:
                settle(account)

    def _is_due(self) -> bool:
        return time.monotonic() >= self._next or self._gone().exceeds(self.room)

    def _measure(self) -> bool:
        began = time.monotonic()
        is_over = any(self._is_over(account) for account in self._accounts)
        self.room = _smallest([room(account) for account in self._accounts])
        self._look(pause=SHARE * (time.monotonic() - began))
        return is_over

    def _is_over(self, account: Account) -> bool:
        used, total = settle(account)
        grown = (used - self._first[account]).exceeds(GRACE)
        return grown and (used.exceeds(account.quota) or total.exceeds(workspace_quota()))

    def _look(self, pause: float = 0.0) -> None:
        self._next = time.monotonic() + max(1.0, pause)
        self._free = [free_space(a.folder) for a in self._accounts if a.folder.exists()]

    def _gone(self) -> Usage:
        """Return what has disappeared from the disk since the last measurement, whoever used it."""
        now = [free_space(a.folder) for a in self._accounts if a.folder.exists()]
        gone = [before - after for before, after in zip(self._free, now, strict=False)]
        return Usage(
            max((used.bytes for used in gone), default=0),
            max((used.files for used in gone), default=0),
        )


def _first_usage(account: Account) -> Usage:
    with _locked(account):
        return _known(account)


def _age(account: Account) -> float:
    with suppress(FileNotFoundError):
        return time.time() - (account.ledger / account.name).stat().st_mtime
    return STALE_SECONDS + 1


def _smallest(rooms: list[Usage]) -> Usage:
    return Usage(
        max(0, min((one.bytes for one in rooms), default=ENDLESS.bytes)),
        max(0, min((one.files for one in rooms), default=ENDLESS.files)),
    )
