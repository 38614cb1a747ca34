"""The things that `up` runs: PostgreSQL, the guardian, and the programs of Switchyard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from config.embedded import Embedded
from config.env import ROOT
from config.guardian import BYE, MARK, kill_marked
from orchestrator.up.processes import bound


class Part(Protocol):
    """One thing that runs, and can be started again when it does not."""

    name: str

    def start(self) -> None: ...
    def is_alive(self) -> bool: ...
    def cause(self) -> str: ...


class Program:
    """A program of Switchyard: a process with all that it starts."""

    def __init__(self, name: str, command: list[str], *, mark: str, log: Path) -> None:
        self.name = name
        self.command = command
        self.mark = f"{mark}:{name}"
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.kill()  # what a dead predecessor left behind
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 (all parts are ours)
                bound(self.command),
                cwd=ROOT,
                env={**os.environ, MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def cause(self) -> str:
        code = self.process.returncode if self.process else None
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"ended with code {code}, see {self.log}"

    def ask_to_stop(self) -> None:
        if self.process is not None and self.is_alive():
            self.process.terminate()

    def kill(self) -> None:
        """Kill the process, its group, and descendants that moved to groups of their own."""
        if self.process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        kill_marked(self.mark)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)


class Guardian:
    """The process that clears away when `up` is killed."""

    name = "guardian"

    def __init__(self, data_dir: Path, *, mark: str, embedded: bool) -> None:
        kind = "embedded" if embedded else "external"
        self.command = [sys.executable, "-m", "config.guardian", mark, str(data_dir), kind]
        self.log = data_dir / "logs" / "guardian.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 (all parts are ours)
                self.command,
                cwd=ROOT,
                env={name: value for name, value in os.environ.items() if name != MARK},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def cause(self) -> str:
        return "died"

    def dismiss(self) -> None:
        """Tell it that nothing is left to do."""
        if self.process is None or self.process.stdin is None:
            return
        with suppress(BrokenPipeError):
            self.process.stdin.write(BYE)
            self.process.stdin.close()
        self.process.wait(timeout=5)


class Postgres:
    """The embedded server."""

    name = "PostgreSQL"

    def __init__(self, data_dir: Path) -> None:
        self.embedded = Embedded(data_dir)

    def start(self) -> None:
        self.embedded.start()

    def is_alive(self) -> bool:
        return self.embedded.is_running()

    def cause(self) -> str:
        return f"died, see {self.embedded.place.log}"

    def stop(self, *, seconds: float) -> None:
        self.embedded.stop(seconds=seconds)
