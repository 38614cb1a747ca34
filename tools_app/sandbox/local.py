"""The local sandbox: each command in namespaces of its own, by bubblewrap.

A command and everything it starts are gone when `execute` returns. What lasts between commands
is the session's folder, which they see as /workspace.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from config.faults import SandboxUnavailable
from tools_app.sandbox import host
from tools_app.sandbox.base import EndedBy, ExecResult, Terminal
from tools_app.sandbox.confinement import (
    UNLIMITED_CODE,
    UNLIMITED_WORDS,
    command_line,
    options,
)
from tools_app.sandbox.follow import CHUNK, Source, follow
from tools_app.sandbox.launch import launch, refusal
from tools_app.sandbox.leftovers import kill_marked, marked
from tools_app.sandbox.local_terminal import LocalTerminal
from tools_app.sandbox.network import opened
from tools_app.sandbox.output import Output
from tools_app.sandbox.watch import Watch
from tools_app.sandbox.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class LocalSandbox(Workspace):
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
            launched = stack.enter_context(launch(host.find_bwrap(), *self._confined(command)))
            first_pid = launched.first_pid
            stack.enter_context(marked(self.folder.session_id, first_pid))
            stack.enter_context(opened(self.network, first_pid))
            launched.release()
            fd = launched.output.fileno()
            source = Source(fd=fd, receive=lambda: os.read(fd, CHUNK), output=output)
            watch = Watch(first_pid=first_pid, files=self.folder.files, limits=self.limits)
            ended_by = follow(source, launched.handle, watch, until, stopped or threading.Event())
            launched.kill()
            # With every process gone, the pipe has an end.
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
        """What bubblewrap is told, and the command line that it runs."""
        told = options(
            files=self.make(),
            limits=self.limits,
            variables=self.network.variables,
            mounts=self.mounts,
            terminal=terminal,
        )
        return told, command_line(bash=host.find_bash(), limits=self.limits, command=command)


def _result(
    exit_code: int | None, launcher_code: int | None, output: str, ended_by: EndedBy
) -> ExecResult:
    if ended_by == "itself" and exit_code is None:
        if launcher_code is not None and launcher_code > 0:
            raise refusal(output)
        ended_by = "stop"  # somebody killed bubblewrap itself
    if exit_code == UNLIMITED_CODE and output.startswith(UNLIMITED_WORDS):
        limit = output.splitlines()[0].removeprefix(UNLIMITED_WORDS)
        raise SandboxUnavailable(
            f"The sandbox cannot limit this here: {limit}. The process that started Switchyard "
            "has a lower hard limit; raise it (see `ulimit -aH`), or lower the environment's."
        )
    return ExecResult(exit_code=exit_code, output=output, ended_by=ended_by)
