"""The local sandbox: each command in namespaces of its own, by bubblewrap.

A command and everything it starts are gone when `execute` returns. What lasts between commands
is the session's folder, which they see as /workspace.
"""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from config.faults import SandboxUnavailable
from tools_app.folder import SessionFolder
from tools_app.sandbox import host
from tools_app.sandbox.base import EndedBy, ExecResult, Limits
from tools_app.sandbox.confinement import (
    UNLIMITED_CODE,
    UNLIMITED_WORDS,
    command_line,
    options,
)
from tools_app.sandbox.launch import Launched, launch, refusal
from tools_app.sandbox.leftovers import kill_leftovers, marked
from tools_app.sandbox.output import Output
from tools_app.sandbox.watch import Watch

#: How often the command is looked after while it says nothing.
TICK_SECONDS = 0.1
#: How often its use of the machine is measured.
WATCH_SECONDS = 0.25
#: A command that floods its output is slowed to some 13 MB a second.
FLOOD_SECONDS = 0.005
CHUNK = 65_536


@dataclass(frozen=True, kw_only=True)
class LocalSandbox:
    folder: SessionFolder
    limits: Limits
    share_network: bool = False

    def execute(
        self,
        command: str,
        *,
        seconds: float,
        on_output: Callable[[str], None] | None = None,
        stopped: threading.Event | None = None,
    ) -> ExecResult:
        bwrap, bash = host.find_bwrap(), host.find_bash()
        files = self.folder.make()
        host.check_passable(files)
        until = time.monotonic() + min(seconds, self.limits.wall_seconds)
        output = Output(on_output)
        told = options(files=files, limits=self.limits, share_network=self.share_network)
        line = command_line(bash=bash, limits=self.limits, command=command)
        with (
            launch(bwrap, told, line) as launched,
            marked(self.folder.session_id, launched.first_pid),
        ):
            launched.release()
            watch = Watch(first_pid=launched.first_pid, files=files, limits=self.limits)
            ended_by = _follow(launched, output, watch, until, stopped or threading.Event())
            launched.kill()
            _drain(launched, output)
            exit_code = launched.exit_code() if ended_by == "itself" else None
        return _result(exit_code, launched.process.returncode, output.text(), ended_by)

    def destroy(self) -> None:
        kill_leftovers(self.folder.session_id)


def _follow(
    launched: Launched, output: Output, watch: Watch, until: float, stopped: threading.Event
) -> EndedBy:
    """Pass output on until the command ends, or something ends it; say which."""
    look_at = time.monotonic() + WATCH_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(launched.output, selectors.EVENT_READ)
        selector.register(launched.handle, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(TICK_SECONDS):
                if key.fileobj == launched.handle:
                    return "itself"
                if not _take(launched, output):
                    selector.unregister(launched.output)
            now = time.monotonic()
            if stopped.is_set():
                return "stop"
            if now >= until:
                return "time"
            if now >= look_at:
                look_at = now + WATCH_SECONDS
                if limit := watch.exceeded():
                    return limit


def _take(launched: Launched, output: Output) -> bool:
    """Read one piece of output; False at its end."""
    data = os.read(launched.output.fileno(), CHUNK)
    output.take(data)
    if output.flooding:
        time.sleep(FLOOD_SECONDS)
    return bool(data)


def _drain(launched: Launched, output: Output) -> None:
    """Read what the command wrote last. With every process gone, the pipe has an end."""
    with selectors.DefaultSelector() as selector:
        selector.register(launched.output, selectors.EVENT_READ)
        while selector.select(1) and _take(launched, output):
            pass


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
