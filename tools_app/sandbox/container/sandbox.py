"""The container sandbox: one container per session, one command at a time in it.

A command and everything it started are gone when `execute` returns; the container stays for the
next one, with what lies in its /tmp, until it is idle for long.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from uuid import UUID
from weakref import WeakValueDictionary

from tools_app.sandbox.base import EndedBy, ExecResult, Terminal
from tools_app.sandbox.container import shape
from tools_app.sandbox.container.cgroup import CgroupWatch
from tools_app.sandbox.container.claims import Claim, claimed
from tools_app.sandbox.container.command import Command
from tools_app.sandbox.container.engine import Engine, connect
from tools_app.sandbox.container.lifecycle import (
    COMMANDS,
    Box,
    ensure,
    labels,
    name_of,
    remove_containers,
)
from tools_app.sandbox.container.terminal import ContainerTerminal
from tools_app.sandbox.follow import TICK_SECONDS, Source, follow
from tools_app.sandbox.network import opened
from tools_app.sandbox.output import Output
from tools_app.sandbox.workspace import Workspace

#: The exit code of who was killed: by itself, by another, or with the whole container.
KILLED = 128 + signal.SIGKILL
GOING_SECONDS = 1.0


class _Turn:
    """Commands of one session take turns in this process: what one leaves is ended, all of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_turns: WeakValueDictionary[UUID, _Turn] = WeakValueDictionary()
_turns_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class ContainerSandbox(Workspace):
    image: str
    #: The container that this handle has used; another one of the same session will not do.
    _known: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def container_id(self) -> str:
        """The container that was used; empty when none was."""
        return self._known[0] if self._known else ""

    def execute(
        self,
        command: str,
        *,
        seconds: float,
        on_output: Callable[[str], None] | None = None,
        stopped: threading.Event | None = None,
    ) -> ExecResult:
        until = time.monotonic() + min(seconds, self.limits.wall_seconds)
        stopped = stopped or threading.Event()
        session_id = self.folder.session_id
        with _turn(session_id, until, stopped) as late, claimed(session_id) as claim:
            if late:
                return ExecResult(exit_code=None, output="", ended_by=late)
            return self._run(command, claim, until, Output(on_output), stopped)

    def open_terminal(self, command: str = "", *, columns: int = 80, rows: int = 24) -> Terminal:
        return ContainerTerminal(self, self.image, command, columns=columns, rows=rows)

    def destroy(self) -> None:
        remove_containers(self.folder.session_id)

    def _run(
        self, command: str, claim: Claim, until: float, output: Output, stopped: threading.Event
    ) -> ExecResult:
        engine = connect()
        box = self._box(engine)
        claim.check()
        box.group.check(self.limits)
        with ExitStack() as stack:
            stack.enter_context(opened(self.network, box.group.first_pid))
            watch = CgroupWatch(
                group=box.group,
                files=self.folder.files,
                limits=self.limits,
                cpu_before=box.group.cpu_seconds(),
                kills_before=box.group.memory_kills(),
            )
            # Whatever happens from here on, nothing of the command stays.
            stack.callback(_end_commands, engine, box)
            line = shape.command_line(command, self.limits)
            running = Command(engine, box.id, line, self.network.variables)
            stack.callback(running.close)
            source = Source(fd=running.fileno(), receive=running.receive, output=output)
            output.take(running.early())
            ended_by: EndedBy = "itself"
            if (handle := running.handle()) is not None:
                stack.callback(os.close, handle)
                ended_by = follow(source, handle, watch, until, stopped)
            if not _end_commands(engine, box) and ended_by == "itself":
                ended_by = "stop"
            source.drain()
            exit_code = running.exit_code() if ended_by == "itself" else None
        if exit_code and box.group.memory_kills() > watch.kills_before:
            exit_code, ended_by = None, "memory"
        if exit_code == KILLED and _is_ending(box.group.first_pid):
            exit_code = None
        if ended_by == "itself" and exit_code is None:
            ended_by = "stop"  # the whole container was ended
        return ExecResult(exit_code=exit_code, output=output.text(), ended_by=ended_by)

    def _box(self, engine: Engine) -> Box:
        session_id = self.folder.session_id
        body = shape.body(
            engine,
            files=self.make(),
            mounts=self.mounts,
            limits=self.limits,
            image=self.image,
            labels=labels(session_id, COMMANDS),
        )
        box = ensure(engine, name_of(session_id), body, known=self.container_id or None)
        self._known[:] = [box.id]
        return box


def _is_ending(first_pid: int) -> bool:
    """Whether the container goes: its first process takes all others along before it is gone."""
    try:
        handle = os.pidfd_open(first_pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], GOING_SECONDS)[0])
    finally:
        os.close(handle)


def _end_commands(engine: Engine, box: Box) -> bool:
    """End all commands; where that cannot be done, the container. False says so."""
    if box.group.kill_commands():
        return True
    engine.remove(box.id)
    return False


@contextmanager
def _turn(session_id: UUID, until: float, stopped: threading.Event) -> Iterator[EndedBy | None]:
    """Wait until no other thread runs a command of this session, or say why not."""
    with _turns_lock:
        turn = _turns.setdefault(session_id, _Turn())
    while not turn.lock.acquire(timeout=TICK_SECONDS):
        if stopped.is_set() or time.monotonic() >= until:
            yield "stop" if stopped.is_set() else "time"
            return
    try:
        yield None
    finally:
        turn.lock.release()
