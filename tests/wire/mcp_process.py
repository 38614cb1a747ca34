"""Starts the real MCP server of `mcp_server.py` in a separate process, and kills it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from core import env

PATIENCE = 60.0


class McpProcess:
    """A server on a port of this machine. `notes()` returns the requests it received."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="switchyard-mcp-")
        self._notes = Path(self._folder.name) / "notes"
        self._notes.touch()
        self.port = free_port()
        self.netloc = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.netloc}/mcp"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.wire.mcp_server", str(self.port), str(self._notes)],
            cwd=env.ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        wait_until(self._listens, "the MCP server listens")

    def _listens(self) -> bool:
        assert self._process
        assert self._process.poll() is None, "the MCP server ended"
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        if self._process:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def notes(self) -> list[str]:
        return self._notes.read_text().splitlines()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._folder.cleanup()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until(condition: object, what: str) -> None:
    """Wait for a condition, and fail with its name."""
    assert callable(condition)
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"waited in vain until {what}"
        time.sleep(0.02)
