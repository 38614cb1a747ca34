"""A person's terminal in a local sandbox: bubblewrap on a pseudo-terminal of its own.

The pseudo-terminal is made for this shell alone, so whatever it pushes into its own input reaches
nobody else.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from config.faults import Fault
from tools_app.folder import acting_gid, acting_uid
from tools_app.sandbox import host
from tools_app.sandbox.follow import CHUNK, WATCH_SECONDS
from tools_app.sandbox.launch import Launched, launch
from tools_app.sandbox.leftovers import marked
from tools_app.sandbox.network import opened
from tools_app.sandbox.watch import Watch

if TYPE_CHECKING:
    from tools_app.sandbox.workspace import Workspace


class LocalTerminal:
    """One thread reads and another writes; any may close."""

    def __init__(
        self, place: Workspace, options: list[str], command: list[str], *, columns: int, rows: int
    ) -> None:
        self._closing, self._started = threading.Event(), threading.Event()
        self._fault: Exception | None = None
        self._reading = threading.Lock()
        self._screen, inner = pty.openpty()
        self.resize(columns, rows)
        # Bubblewrap ends with the thread that started it, so that thread stays as long.
        self._thread = threading.Thread(
            target=self._live, args=(place, options, command, inner), daemon=True, name="terminal"
        )
        self._thread.start()
        self._started.wait()
        if self._fault is not None:
            raise self._fault

    def read(self, seconds: float) -> bytes | None:
        with self._reading, suppress(OSError, ValueError):
            ready, _, _ = select.select([self._screen], [], [], seconds)
            if not ready:
                return b""
            # The last process inside has closed its end: this reads as an error, or as nothing.
            return os.read(self._screen, CHUNK) or None
        return None

    def write(self, data: bytes) -> None:
        with suppress(OSError):
            while data:
                data = data[os.write(self._screen, data) :]

    def resize(self, columns: int, rows: int) -> None:
        with suppress(OSError):
            fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        with self._reading:
            fd, self._screen = self._screen, -1
            if fd >= 0:
                os.close(fd)

    def _live(self, place: Workspace, options: list[str], command: list[str], inner: int) -> None:
        try:
            with ExitStack() as stack:
                launched = self._launch(stack, place, options, command, inner)
                watch = Watch(
                    first_pid=launched.first_pid, files=place.folder.files, limits=place.limits
                )
                self._started.set()
                while not self._closing.wait(WATCH_SECONDS):
                    # Nobody waits for a terminal, so its limits are watched here.
                    if launched.process.poll() is not None or watch.exceeded():
                        return
        except (Fault, OSError) as error:
            self._fault = error
        finally:
            self._started.set()

    def _launch(
        self,
        stack: ExitStack,
        place: Workspace,
        options: list[str],
        command: list[str],
        inner: int,
    ) -> Launched:
        try:
            if os.geteuid() == 0:
                os.fchown(inner, acting_uid(), acting_gid())
            launching = launch(host.find_bwrap(), options, command, screen=inner)
            launched = stack.enter_context(launching)
        finally:
            os.close(inner)
        # Not among the commands: a new run ends what an older run left, not what people do.
        pid = launched.first_pid
        stack.enter_context(marked(place.folder.session_id, pid, kind="terminal"))
        stack.enter_context(opened(place.network, pid))
        launched.release()
        return launched
