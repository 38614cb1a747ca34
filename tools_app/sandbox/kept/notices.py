"""Hears from the kernel that a folder has changed, so that nobody has to look again and again."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import TracebackType
from typing import Self

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x02, 0x80, 0x100
ROOM = 65_536
_libc = ctypes.CDLL(None, use_errno=True)


class Notices:
    """Readable when a file of the folder was made or grew.

    A user may have few of them (fs.inotify.max_user_instances); `is_deaf` says that there was none
    left, and whoever waits has to look by itself.
    """

    def __init__(self, folder: Path) -> None:
        self._fd = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd >= 0:
            events = IN_MODIFY | IN_MOVED_TO | IN_CREATE
            if _libc.inotify_add_watch(self._fd, os.fsencode(folder), events) < 0:
                os.close(self._fd)
                self._fd = -1

    @property
    def is_deaf(self) -> bool:
        return self._fd < 0

    def fileno(self) -> int:
        return self._fd

    def clear(self) -> None:
        """Forget what was told so far."""
        try:
            while os.read(self._fd, ROOM):
                pass
        except BlockingIOError:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.is_deaf:
            os.close(self._fd)
