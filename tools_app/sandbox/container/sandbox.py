"""The container sandbox: one container per session, which runs one command at a time.

A command and everything it started are gone when `execute` returns. The container stays for the
next command, with the content of its /tmp, until it has been idle for long.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from weakref import WeakValueDictionary

from core.exceptions import Fault
from tools_app.sandbox.base import EndedBy, ExecResult, SandboxBase, Terminal
from tools_app.sandbox.cgroup import CgroupWatch, cgroup_of
from tools_app.sandbox.container import lifecycle
from tools_app.sandbox.container.claims import Claim, claim_container
from tools_app.sandbox.container.engine import Engine, Stream, connect
from tools_app.sandbox.local import HOME, TERMINAL_VARIABLES
from tools_app.sandbox.network import serve_network
from tools_app.sandbox.output import TICK_SECONDS, WATCH_SECONDS, Output, Source, follow
from tools_app.storage import StorageWatch

#: How long the engine may take to report that a command started, or ended.
NOTICE_SECONDS = 10.0
POLL_SECONDS = 0.01


class Command:
    """A command in a container. It runs from its creation; its output must be read to the end."""

    def __init__(
        self, engine: Engine, container_id: str, line: list[str], variables: Mapping[str, str]
    ) -> None:
        self._engine = engine
        body = {
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": line,
            "Env": [f"{name}={value}" for name, value in {"TERM": "dumb", **variables}.items()],
            "User": lifecycle.sandbox_user(),
            "WorkingDir": HOME,
        }
        self._id = engine.request_or_raise("POST", f"/containers/{container_id}/exec", body)["Id"]
        path = f"/exec/{self._id}/start"
        self.stream = Stream(engine.socket, path, {"Detach": False, "Tty": False}, framed=True)

    def handle(self) -> int | None:
        """Return a handle that becomes readable when the command ends; None if it has ended."""
        until = time.monotonic() + NOTICE_SECONDS
        while time.monotonic() < until:
            state = self._engine.request_or_raise("GET", f"/exec/{self._id}/json")
            if state["Running"] and state["Pid"]:
                try:
                    return os.pidfd_open(state["Pid"])
                except ProcessLookupError:
                    return None
            if self._has_ended(state):
                return None
            time.sleep(POLL_SECONDS)
        return None

    def exit_code(self) -> int | None:
        """Return the command's exit code; None if the engine knows of none."""
        until = time.monotonic() + NOTICE_SECONDS
        while time.monotonic() < until:
            answer = self._engine.request("GET", f"/exec/{self._id}/json")
            if not answer.is_fine:
                return None
            if self._has_ended(answer.content):
                code = answer.content["ExitCode"]
                return code if isinstance(code, int) and code >= 0 else None
            time.sleep(POLL_SECONDS)
        return None

    def _has_ended(self, state: dict[str, Any]) -> bool:
        """Tell an ended command from one not yet started, which has an exit code in Podman too."""
        if state["Running"]:
            return False
        return state["CanRemove"] if self._engine.is_podman else state["ExitCode"] is not None


#: The exit code of a killed process: by itself, by another, or with the whole container.
KILLED = 128 + signal.SIGKILL
GOING_SECONDS = 1.0


#: Serialise the commands of one session in this process: all that one leaves is ended.
_turns: WeakValueDictionary[UUID, threading.Lock] = WeakValueDictionary()
_turns_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class ContainerSandbox(SandboxBase):
    image: str
    #: The container that this object has used; another one of the same session is refused.
    _known: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def container_id(self) -> str:
        """The id of the container that was used; empty if none was."""
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
        with _turn(session_id, until, stopped) as late, claim_container(session_id) as claim:
            if late:
                return ExecResult(exit_code=None, output="", ended_by=late)
            return self._run(command, claim, until, Output(on_output), stopped)

    def open_terminal(self, command: str = "", *, columns: int = 80, rows: int = 24) -> Terminal:
        return ContainerTerminal(self, self.image, command, columns=columns, rows=rows)

    def destroy(self) -> None:
        lifecycle.remove_containers(self.folder.session_id)

    def _run(
        self, command: str, claim: Claim, until: float, output: Output, stopped: threading.Event
    ) -> ExecResult:
        engine = connect()
        container = self._container(engine)
        claim.check()
        container.group.check(self.limits)
        with ExitStack() as stack:
            stack.enter_context(serve_network(self.network, container.group.first_pid))
            storage = self.watch_storage()
            watch = CgroupWatch(
                group=container.group,
                storage=storage,
                limits=self.limits,
                cpu_before=container.group.cpu_seconds(),
                kills_before=container.group.memory_kills(),
            )
            stack.callback(storage.finish)
            # Whatever happens from here on, nothing of the command is left behind.
            stack.callback(_end_commands, engine, container)
            line = lifecycle.command_line(command, self.limits, file_mb=storage.file_mb)
            running = Command(engine, container.id, line, self.network.variables)
            stream = running.stream
            stack.callback(stream.close)
            source = Source(fd=stream.fileno(), receive=stream.receive, output=output)
            output.take(stream.buffered())
            ended_by: EndedBy = "itself"
            if (handle := running.handle()) is not None:
                stack.callback(os.close, handle)
                ended_by = follow(source, handle, watch, until, stopped)
            if not _end_commands(engine, container) and ended_by == "itself":
                ended_by = "stop"
            source.drain()
            exit_code = running.exit_code() if ended_by == "itself" else None
        if exit_code and container.group.memory_kills() > watch.kills_before:
            exit_code, ended_by = None, "memory"
        if exit_code == KILLED and _is_ending(container.group.first_pid):
            exit_code = None
        if ended_by == "itself" and exit_code is None:
            ended_by = "stop"  # The whole container was ended.
        return ExecResult(exit_code=exit_code, output=output.text(), ended_by=ended_by)

    def _container(self, engine: Engine) -> lifecycle.Container:
        session_id = self.folder.session_id
        body = lifecycle.container_spec(engine, self, self.image, role=lifecycle.COMMANDS)
        container = lifecycle.ensure_container(
            engine, lifecycle.container_name(session_id), body, known=self.container_id or None
        )
        self._known[:] = [container.id]
        return container


def _is_ending(first_pid: int) -> bool:
    """Return whether the container is ending: its first process outlives all others."""
    try:
        handle = os.pidfd_open(first_pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], GOING_SECONDS)[0])
    finally:
        os.close(handle)


def _end_commands(engine: Engine, container: lifecycle.Container) -> bool:
    """End all commands. If that fails, remove the container and return False."""
    if container.group.kill_commands():
        return True
    engine.remove(container.id)
    return False


@contextmanager
def _turn(session_id: UUID, until: float, stopped: threading.Event) -> Iterator[EndedBy | None]:
    """Wait until no other thread runs a command of this session; yield the reason if it may not."""
    with _turns_lock:
        turn = _turns.setdefault(session_id, threading.Lock())
    while not turn.acquire(timeout=TICK_SECONDS):
        if stopped.is_set() or time.monotonic() >= until:
            yield "stop" if stopped.is_set() else "time"
            return
    try:
        yield None
    finally:
        turn.release()


#: Waits until limits, network and screen are set up; the echo of the line is not shown.
GATE = "read -r _ || exit; "
INTERACTIVE = "command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i"


class ContainerTerminal:
    """A shell in a container. One thread reads and another writes; any thread may close it."""

    def __init__(
        self, sandbox: SandboxBase, image: str, command: str, *, columns: int, rows: int
    ) -> None:
        self._engine = connect()
        self._reading, self._closing = threading.Lock(), threading.Lock()
        self._over = False
        with ExitStack() as stack:
            claim = stack.enter_context(claim_container(sandbox.folder.session_id, "terminal"))
            storage = sandbox.watch_storage()
            stack.callback(storage.finish)
            body = _body(self._engine, sandbox, image, command, file_mb=storage.file_mb)
            name = lifecycle.container_name(sandbox.folder.session_id, claim.nonce)
            self._id = stack.enter_context(lifecycle.temporary_container(self._engine, name, body))
            self._stream = Stream(
                self._engine.socket,
                f"/containers/{self._id}/attach?stream=1&stdin=1&stdout=1&stderr=1",
                None,
                framed=False,
            )
            stack.callback(self._hang_up)
            lifecycle.start(self._engine, self._id)
            first_pid = self._engine.request_or_raise("GET", f"/containers/{self._id}/json")[
                "State"
            ]["Pid"]
            cgroup_of(first_pid).check(sandbox.limits)
            stack.enter_context(serve_network(sandbox.network, first_pid))
            self.resize(columns, rows)
            self._stream.send(b"\n")
            self._stream.skip_line()
            self._ended = threading.Event()
            stack.callback(self._ended.set)
            watching = threading.Thread(target=self._watch, args=(storage,), daemon=True)
            watching.name = "terminal storage"
            watching.start()
            self._stack = stack.pop_all()

    def read(self, seconds: float) -> bytes | None:
        with self._reading:
            if self._over:
                return None
            if early := self._stream.buffered():
                return early
            with suppress(OSError, ValueError):
                if not select.select([self._stream], [], [], seconds)[0]:
                    return b""
                return self._stream.receive() or None
            return None

    def write(self, data: bytes) -> None:
        with suppress(OSError):
            self._stream.send(data)

    def resize(self, columns: int, rows: int) -> None:
        self._engine.request("POST", f"/containers/{self._id}/resize", h=rows, w=columns)

    def close(self) -> None:
        with self._closing, suppress(Fault):
            self._stack.close()

    def _watch(self, storage: StorageWatch) -> None:
        """End the terminal when it stores too much. No caller waits for it."""
        while not self._ended.wait(WATCH_SECONDS):
            if storage.exceeded():
                self.close()

    def _hang_up(self) -> None:
        self._stream.hang_up()
        with self._reading:
            self._over = True
            self._stream.close()


def _body(
    engine: Engine, sandbox: SandboxBase, image: str, command: str, *, file_mb: int
) -> dict[str, Any]:
    body = lifecycle.container_spec(engine, sandbox, image, role=lifecycle.TERMINAL)
    variables = {**sandbox.network.variables, **TERMINAL_VARIABLES}
    line = lifecycle.command_line(GATE + (command or INTERACTIVE), sandbox.limits, file_mb=file_mb)
    body["Env"] += [f"{name}={value}" for name, value in variables.items()]
    body |= {"Entrypoint": line[:1], "Cmd": line[1:], "Tty": True, "OpenStdin": True}
    body |= {"User": lifecycle.sandbox_user(), "WorkingDir": HOME}
    body |= {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True}
    return body
