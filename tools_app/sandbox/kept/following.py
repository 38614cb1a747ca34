"""Follows a kept command from its record: what it says, and how it ends."""

from __future__ import annotations

import codecs
import os
import selectors
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from config.faults import KeeperLost, SandboxUnavailable
from tools_app.sandbox.kept.control import open_keeper, start
from tools_app.sandbox.kept.notices import Notices
from tools_app.sandbox.kept.record import Ending, Record

#: The kernel tells of every change; this is for file systems that do not.
LOOK_SECONDS = 2.0
#: How often it is looked where the kernel has no more room for who wants to be told.
DEAF_SECONDS = 0.2
PIECE = 65_536
MESSAGE_LENGTH = 300


def follow(record: Record, *, on_output: Callable[[str], None], stop: int) -> Ending | None:
    """Pass on what the command says from its beginning, until it has ended; begin it if nobody did.

    None: the descriptor `stop` became readable first. The command goes on.
    """
    with ExitStack() as stack:
        notices = stack.enter_context(Notices(_made(record)))
        reader = _Reader(stack.enter_context(record.output.open("rb")), on_output)
        keeper = _Keeper(record, stack)
        selector = stack.enter_context(selectors.DefaultSelector())
        selector.register(stop, selectors.EVENT_READ)
        if not notices.is_deaf:
            selector.register(notices, selectors.EVENT_READ)
        selector.register(keeper.handle, selectors.EVENT_READ)
        while True:
            ending = record.ending()
            reader.take()  # after the look: who sees the end has seen all that came before it
            if ending:
                return ending
            ready = [key.fileobj for key, _ in selector.select(_patience(notices))]
            if stop in ready:
                return None
            if notices in ready:
                notices.clear()
            if keeper.handle in ready and record.ending() is None:
                selector.unregister(keeper.handle)
                keeper.look_for_another()
                selector.register(keeper.handle, selectors.EVENT_READ)


def _made(record: Record) -> Path:
    record.output.touch(mode=0o600)
    return record.folder


def _patience(notices: Notices) -> float:
    return DEAF_SECONDS if notices.is_deaf else LOOK_SECONDS


class _Keeper:
    """The process that keeps the command: found, or started."""

    def __init__(self, record: Record, stack: ExitStack) -> None:
        self._record, self._stack = record, stack
        self.handle = -1
        self._hold(start(record) if not record.keeper() else self._found())

    def look_for_another(self) -> None:
        """The process is gone without an end: it was one too many, or the command is lost."""
        if not self._record.keeper():
            said = self._record.log.read_text(errors="replace").strip()[-MESSAGE_LENGTH:]
            raise SandboxUnavailable(f"The keeper of the command did not start: {said}")
        self._hold(self._found())

    def _found(self) -> int:
        handle = open_keeper(self._record)
        if handle is None and self._record.ending() is None:
            raise KeeperLost
        # One that has ended well meanwhile is as good as one that is about to.
        return os.eventfd(1) if handle is None else handle

    def _hold(self, handle: int) -> None:
        self.handle = handle
        self._stack.callback(os.close, handle)


class _Reader:
    """Reads what was added to the output, whole characters only."""

    def __init__(self, file: IO[bytes], on_output: Callable[[str], None]) -> None:
        self._file, self._on_output = file, on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self) -> None:
        while piece := self._file.read(PIECE):
            if text := self._decoder.decode(piece):
                self._on_output(text)
