"""A person's terminal in a container of its own, beside the one of the session's commands.

Both see the same files. The shell is the container's only work: when it ends or is closed, the
kernel ends everything that it started.
"""

from __future__ import annotations

import select
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from config.faults import Fault
from tools_app.sandbox.confinement import HOME, TERMINAL_VARIABLES
from tools_app.sandbox.container import shape
from tools_app.sandbox.container.cgroup import cgroup_of
from tools_app.sandbox.container.claims import claimed
from tools_app.sandbox.container.engine import Engine, connect
from tools_app.sandbox.container.lifecycle import TERMINAL, labels, made, name_of, start
from tools_app.sandbox.container.stream import Stream
from tools_app.sandbox.network import opened

if TYPE_CHECKING:
    from tools_app.sandbox.workspace import Workspace

#: Waits until limits, network and screen are as they should be; the line's echo is not shown.
GATE = "read -r _ || exit; "
INTERACTIVE = "command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i"


class ContainerTerminal:
    """One thread reads and another writes; any may close."""

    def __init__(
        self, place: Workspace, image: str, command: str, *, columns: int, rows: int
    ) -> None:
        self._engine = connect()
        self._reading, self._closing = threading.Lock(), threading.Lock()
        self._over = False
        with ExitStack() as stack:
            claim = stack.enter_context(claimed(place.folder.session_id, "terminal"))
            body = _body(self._engine, place, image, command)
            name = name_of(place.folder.session_id, claim.nonce)
            self._id = stack.enter_context(made(self._engine, name, body))
            self._stream = Stream(
                self._engine.socket,
                f"/containers/{self._id}/attach?stream=1&stdin=1&stdout=1&stderr=1",
                None,
                framed=False,
            )
            stack.callback(self._hang_up)
            start(self._engine, self._id)
            first_pid = self._engine.need("GET", f"/containers/{self._id}/json")["State"]["Pid"]
            cgroup_of(first_pid).check(place.limits)
            stack.enter_context(opened(place.network, first_pid))
            self.resize(columns, rows)
            self._stream.send(b"\n")
            self._stream.skip_line()
            self._stack = stack.pop_all()

    def read(self, seconds: float) -> bytes | None:
        with self._reading:
            if self._over:
                return None
            if early := self._stream.early():
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
        self._engine.ask("POST", f"/containers/{self._id}/resize", h=rows, w=columns)

    def close(self) -> None:
        with self._closing, suppress(Fault):
            self._stack.close()

    def _hang_up(self) -> None:
        self._stream.hang_up()
        with self._reading:
            self._over = True
            self._stream.close()


def _body(engine: Engine, place: Workspace, image: str, command: str) -> dict[str, Any]:
    body = shape.body(
        engine,
        files=place.make(),
        mounts=place.mounts,
        limits=place.limits,
        image=image,
        labels=labels(place.folder.session_id, TERMINAL),
    )
    told = {**place.network.variables, **TERMINAL_VARIABLES}
    line = shape.command_line(GATE + (command or INTERACTIVE), place.limits)
    body["Env"] += [f"{name}={value}" for name, value in told.items()]
    body |= {"Entrypoint": line[:1], "Cmd": line[1:], "Tty": True, "OpenStdin": True}
    body |= {"User": shape.acting_user(), "WorkingDir": HOME}
    body |= {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True}
    return body
