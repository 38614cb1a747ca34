"""Starts the keepers of commands, follows the output of a command to its end, and ends keepers."""

from __future__ import annotations

import codecs
import ctypes
import os
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO

from django.conf import settings

from core.env import ROOT, STACK
from tools_app.exceptions import KeeperLost, SandboxUnavailable
from tools_app.sandbox.processes import has_ended, kill, process_identity
from tools_app.sandbox.tasks.record import Ending, Record

#: A keeper ends its command and records the end within this time of being asked.
PATIENCE_SECONDS = 5.0


def start(record: Record, *, slot: int | None = None) -> int:
    """Start a keeper for this record. Return a handle that becomes readable when it has ended.

    If several are started, one runs the command and the others exit at once. The keeper holds the
    slot, an open file, for as long as it lives.
    """
    with record.log.open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tools_app.sandbox.tasks.keeper", str(record.folder)],
            cwd=ROOT,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=() if slot is None else (slot,),
        )
    handle = os.pidfd_open(process.pid)
    # It outlives this call and perhaps this process; the thread only reaps it.
    threading.Thread(target=process.wait, daemon=True, name="keeper").start()
    return handle


def open_keeper(record: Record) -> int | None:
    """Return a handle of the record's keeper; None if it is gone, or was on another machine."""
    identity = record.keeper()
    if not identity:
        return None
    try:
        handle = os.pidfd_open(_pid(identity))
    except OSError:
        return None
    # The handle pins one process, so its identity cannot change any more.
    if process_identity(_pid(identity)) == identity:
        return handle
    os.close(handle)
    return None


def is_alive(record: Record) -> bool:
    identity = record.keeper()
    if not identity or record.ending():
        return False
    pid = _pid(identity)
    return process_identity(pid) == identity and not has_ended(pid)


def stop_all(records: Sequence[Record], reason: str, *, seconds: float = PATIENCE_SECONDS) -> int:
    """End these commands and wait for it. Return how many ran. A keeper that does not obey is killed."""
    for record in records:
        if record.ending() is None:
            record.ask_to_stop(reason)
    alive = [record for record in records if is_alive(record)]
    for record in alive:
        _signal(record, signal.SIGTERM)
    until = time.monotonic() + seconds
    for record in alive:
        if not _wait(record, until):
            _signal(record, signal.SIGKILL)
            _wait(record, time.monotonic() + PATIENCE_SECONDS)
    return len(alive)


def _signal(record: Record, number: int) -> None:
    identity = record.keeper()
    kill(_pid(identity), identity, number)


def _wait(record: Record, until: float) -> bool:
    handle = open_keeper(record)
    if handle is None:
        return True
    try:
        return bool(select.select([handle], [], [], max(0.0, until - time.monotonic()))[0])
    finally:
        os.close(handle)


def _pid(identity: str) -> int:
    return int(identity.partition(".")[0])


def _environment() -> dict[str, str]:
    """Leave out the mark by which `up` finds the processes it must end: a command outlives it."""
    told = {name: value for name, value in os.environ.items() if name != STACK}
    return told | {
        "DATA_DIR": str(settings.DATA_DIR),
        "CONTAINER_SOCKET": settings.CONTAINER_SOCKET,
    }


# ── Following a command ──────────────────────────────────────────────────────

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x02, 0x80, 0x100
ROOM = 65_536
_libc = ctypes.CDLL(None, use_errno=True)


class FolderWatch:
    """An inotify descriptor: readable when a file in the folder was created or grew.

    A user has a limited number of these (fs.inotify.max_user_instances). If none is left, `is_unavailable`
    is true and the caller has to poll.
    """

    def __init__(self, folder: Path) -> None:
        self._fd = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd >= 0:
            events = IN_MODIFY | IN_MOVED_TO | IN_CREATE
            if _libc.inotify_add_watch(self._fd, os.fsencode(folder), events) < 0:
                os.close(self._fd)
                self._fd = -1

    @property
    def is_unavailable(self) -> bool:
        return self._fd < 0

    def fileno(self) -> int:
        return self._fd

    def clear(self) -> None:
        """Discard the pending events."""
        try:
            while os.read(self._fd, ROOM):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        if not self.is_unavailable:
            os.close(self._fd)


#: inotify reports every change; this interval is for file systems that do not support it.
LOOK_SECONDS = 2.0
#: How often to poll when no inotify instance is left.
DEAF_SECONDS = 0.2
PIECE = 65_536
MESSAGE_LENGTH = 300


def follow(
    record: Record, *, on_output: Callable[[str], None], stop: int, slot: int | None = None
) -> Ending | None:
    """Pass on the output of a command from its beginning until it ends; start it if it never was.

    Its keeper is given the slot. Return None if the descriptor `stop` became readable first. The command goes on.
    """
    with ExitStack() as stack:
        record.output.touch(mode=0o600)
        notices = stack.enter_context(closing(FolderWatch(record.folder)))
        reader = _Reader(stack.enter_context(record.output.open("rb")), on_output)
        keeper = _Keeper(record, stack, slot)
        selector = stack.enter_context(selectors.DefaultSelector())
        selector.register(stop, selectors.EVENT_READ)
        patience = DEAF_SECONDS if notices.is_unavailable else LOOK_SECONDS
        if not notices.is_unavailable:
            selector.register(notices, selectors.EVENT_READ)
        selector.register(keeper.handle, selectors.EVENT_READ)
        while True:
            ending = record.ending()
            reader.take()  # After the check, so that no output before the end is missed.
            if ending:
                return ending
            ready = [key.fileobj for key, _ in selector.select(patience)]
            if stop in ready:
                return None
            if notices in ready:
                notices.clear()
            if keeper.handle in ready and record.ending() is None:
                selector.unregister(keeper.handle)
                keeper.look_for_another()
                selector.register(keeper.handle, selectors.EVENT_READ)


class _Keeper:
    """The keeper process of a record: found, or started."""

    def __init__(self, record: Record, stack: ExitStack, slot: int | None) -> None:
        self._record, self._stack = record, stack
        self.handle = -1
        self._hold(start(record, slot=slot) if not record.keeper() else self._found())

    def look_for_another(self) -> None:
        """Find the keeper after a process ended without a result: it was superfluous, or is lost."""
        if not self._record.keeper():
            said = self._record.log.read_text(errors="replace").strip()[-MESSAGE_LENGTH:]
            raise SandboxUnavailable(f"The keeper of the command did not start: {said}")
        self._hold(self._found())

    def _found(self) -> int:
        handle = open_keeper(self._record)
        if handle is None and self._record.ending() is None:
            raise KeeperLost
        # It has ended well meanwhile: return a handle that is readable at once.
        return os.eventfd(1) if handle is None else handle

    def _hold(self, handle: int) -> None:
        self.handle = handle
        self._stack.callback(os.close, handle)


class _Reader:
    """Reads what was appended to the output, in whole characters."""

    def __init__(self, file: IO[bytes], on_output: Callable[[str], None]) -> None:
        self._file, self._on_output = file, on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self) -> None:
        while piece := self._file.read(PIECE):
            if text := self._decoder.decode(piece):
                self._on_output(text)
