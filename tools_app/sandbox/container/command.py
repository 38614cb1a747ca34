"""One command in a running container."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from tools_app.sandbox.confinement import HOME
from tools_app.sandbox.container.engine import Engine
from tools_app.sandbox.container.shape import acting_user
from tools_app.sandbox.container.stream import Stream

#: How long the engine may take to notice that a command started, or ended.
NOTICE_SECONDS = 10.0
POLL_SECONDS = 0.01


class Command:
    """Runs from the moment it is made. Its output is to be read until the end."""

    def __init__(
        self, engine: Engine, container_id: str, line: list[str], variables: Mapping[str, str]
    ) -> None:
        self._engine = engine
        body = {
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": line,
            "Env": [f"{name}={value}" for name, value in {"TERM": "dumb", **variables}.items()],
            "User": acting_user(),
            "WorkingDir": HOME,
        }
        self._id = engine.need("POST", f"/containers/{container_id}/exec", body)["Id"]
        path = f"/exec/{self._id}/start"
        self._stream = Stream(engine.socket, path, {"Detach": False, "Tty": False}, framed=True)

    def fileno(self) -> int:
        return self._stream.fileno()

    def early(self) -> bytes:
        return self._stream.early()

    def receive(self) -> bytes:
        return self._stream.receive()

    def close(self) -> None:
        self._stream.close()

    def handle(self) -> int | None:
        """Readable when the command ends; None when it has ended already."""
        until = time.monotonic() + NOTICE_SECONDS
        while time.monotonic() < until:
            state = self._state()
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
        """The command's own; None when the engine knows of none."""
        until = time.monotonic() + NOTICE_SECONDS
        while time.monotonic() < until:
            answer = self._engine.ask("GET", f"/exec/{self._id}/json")
            if not answer.is_fine:
                return None
            if self._has_ended(answer.content):
                code = answer.content["ExitCode"]
                return code if isinstance(code, int) and code >= 0 else None
            time.sleep(POLL_SECONDS)
        return None

    def _has_ended(self, state: dict[str, Any]) -> bool:
        """Not to be taken for not yet begun: Podman then has an exit code too, Docker has none."""
        if state["Running"]:
            return False
        return state["CanRemove"] if self._engine.is_podman else state["ExitCode"] is not None

    def _state(self) -> dict[str, Any]:
        return self._engine.need("GET", f"/exec/{self._id}/json")
