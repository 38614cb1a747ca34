"""The local sandbox: each command runs in its own namespaces, made by bubblewrap.

A command and everything it starts are gone when `execute` returns. Only the session's folder lasts
between commands, which see it as /workspace.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from core.exceptions import Fault
from tools_app.exceptions import SandboxUnavailable
from tools_app.files import sandbox_gid, sandbox_uid
from tools_app.sandbox import host
from tools_app.sandbox.base import EndedBy, ExecResult, SandboxBase, Terminal
from tools_app.sandbox.local import bubblewrap
from tools_app.sandbox.local.bubblewrap import Launched
from tools_app.sandbox.local.processes import UsageWatch, kill_marked, mark_running
from tools_app.sandbox.network import serve_network
from tools_app.sandbox.output import CHUNK, WATCH_SECONDS, Output, Source, follow


@dataclass(frozen=True, kw_only=True)
class LocalSandbox(SandboxBase):
    def execute(
        self,
        command: str,
        *,
        seconds: float,
        on_output: Callable[[str], None] | None = None,
        stopped: threading.Event | None = None,
    ) -> ExecResult:
        until = time.monotonic() + min(seconds, self.limits.wall_seconds)
        output = Output(on_output)
        with ExitStack() as stack:
            launched = stack.enter_context(
                bubblewrap.launch(host.find_bwrap(), *self._confined(command))
            )
            first_pid = launched.first_pid
            stack.enter_context(mark_running(self.folder.session_id, first_pid))
            stack.enter_context(serve_network(self.network, first_pid))
            launched.release()
            fd = launched.output.fileno()
            source = Source(fd=fd, receive=lambda: os.read(fd, CHUNK), output=output)
            watch = UsageWatch(first_pid=first_pid, files=self.folder.files, limits=self.limits)
            ended_by = follow(source, launched.handle, watch, until, stopped or threading.Event())
            launched.kill()
            # All processes are gone, so the pipe has an end.
            source.drain()
            exit_code = launched.exit_code() if ended_by == "itself" else None
        return _result(exit_code, launched.process.returncode, output.text(), ended_by)

    def open_terminal(self, command: str = "", *, columns: int = 80, rows: int = 24) -> Terminal:
        confined = self._confined(command or "exec bash -i", terminal=True)
        return LocalTerminal(self, *confined, columns=columns, rows=rows)

    def destroy(self) -> None:
        kill_marked(self.folder.session_id)
        kill_marked(self.folder.session_id, kind="terminal")

    def _confined(self, command: str, *, terminal: bool = False) -> tuple[list[str], list[str]]:
        """Return bubblewrap's options, and the command line that it runs."""
        told = bubblewrap.options(
            files=self.make(),
            limits=self.limits,
            variables=self.network.variables,
            mounts=self.mounts,
            terminal=terminal,
        )
        return told, bubblewrap.command_line(
            bash=host.find_bash(), limits=self.limits, command=command
        )


def _result(
    exit_code: int | None, launcher_code: int | None, output: str, ended_by: EndedBy
) -> ExecResult:
    if ended_by == "itself" and exit_code is None:
        if launcher_code is not None and launcher_code > 0:
            raise bubblewrap.refusal(output)
        ended_by = "stop"  # Bubblewrap itself was killed.
    if exit_code == bubblewrap.UNLIMITED_CODE and output.startswith(bubblewrap.UNLIMITED_WORDS):
        limit = output.splitlines()[0].removeprefix(bubblewrap.UNLIMITED_WORDS)
        raise SandboxUnavailable(
            f"The sandbox cannot set this limit here: {limit}. The process that started Switchyard "
            "has a lower hard limit. Raise it (see `ulimit -aH`), or lower the environment's limit."
        )
    return ExecResult(exit_code=exit_code, output=output, ended_by=ended_by)


class LocalTerminal:
    """A shell on a pseudo-terminal. One thread reads and another writes; any thread may close it."""

    def __init__(
        self,
        sandbox: SandboxBase,
        options: list[str],
        command: list[str],
        *,
        columns: int,
        rows: int,
    ) -> None:
        self._closing, self._started = threading.Event(), threading.Event()
        self._fault: Exception | None = None
        self._reading = threading.Lock()
        self._screen, inner = pty.openpty()
        self.resize(columns, rows)
        # Bubblewrap ends with the thread that started it, so that thread lives as long.
        self._thread = threading.Thread(
            target=self._live, args=(sandbox, options, command, inner), daemon=True, name="terminal"
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
            # When the last process inside has closed its end, this raises or returns nothing.
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

    def _live(
        self, sandbox: SandboxBase, options: list[str], command: list[str], inner: int
    ) -> None:
        try:
            with ExitStack() as stack:
                launched = self._launch(stack, sandbox, options, command, inner)
                watch = UsageWatch(
                    first_pid=launched.first_pid, files=sandbox.folder.files, limits=sandbox.limits
                )
                self._started.set()
                while not self._closing.wait(WATCH_SECONDS):
                    # No caller waits for a terminal, so its limits are watched here.
                    if launched.process.poll() is not None or watch.exceeded():
                        return
        except (Fault, OSError) as error:
            self._fault = error
        finally:
            self._started.set()

    def _launch(
        self,
        stack: ExitStack,
        sandbox: SandboxBase,
        options: list[str],
        command: list[str],
        inner: int,
    ) -> Launched:
        try:
            if os.geteuid() == 0:
                os.fchown(inner, sandbox_uid(), sandbox_gid())
            launching = bubblewrap.launch(host.find_bwrap(), options, command, screen=inner)
            launched = stack.enter_context(launching)
        finally:
            os.close(inner)
        # Not marked as a command: a new run ends what an older run left, but not people's terminals.
        pid = launched.first_pid
        stack.enter_context(mark_running(sandbox.folder.session_id, pid, kind="terminal"))
        stack.enter_context(serve_network(sandbox.network, pid))
        launched.release()
        return launched
