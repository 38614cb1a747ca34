"""Lets a runner ask several measured processes in turn, in short rounds of one sitting.

The figures of a machine vary by the minute, so only figures of the same minute are compared. Each
process prepares itself once and then answers questions: one line of JSON each, on its standard
input and output. This module needs only the standard library, because peers import it from another
environment.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

#: The name of a figure and its values, in milliseconds unless the name says otherwise.
Figures = dict[str, list[float]]
#: The environment variable with the address of the socket that receives starts.
STARTS_VARIABLE = "BENCH_STARTS"
START_SECONDS = 60.0
#: Time before each measured turn or start, for what workers do after the one before.
PAUSE_SECONDS = 0.01
CLOSE_SECONDS = 20.0


def serve(questions: Mapping[str, Callable[..., Mapping[str, Any] | None]]) -> None:
    """Answer the runner's questions until its end of the pipe is closed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(questions[name](**arguments) or {}), file=answers, flush=True)


class MeasuredProcess:
    """A process that answers questions. It starts at once; `ask` waits until it is ready."""

    def __init__(
        self, name: str, command: Sequence[str], *, folder: Path, env: Mapping[str, str]
    ) -> None:
        self.name = name
        self._ready = False
        self._process = subprocess.Popen(  # noqa: S603 (no user input)
            command,
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ask(self, question: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer. Raise RuntimeError if the process ended."""
        if not self._ready:
            self._read()
            self._ready = True
        assert self._process.stdin
        self._process.stdin.write(json.dumps([question, arguments]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        if line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            return answer
        raise RuntimeError(f"{self.name} ended with status {self._process.wait()}")

    def close(self) -> None:
        """Let the process clean up and end."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Starts:
    """Receives when the measured workers started what was queued, by this machine's clock."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(os.environ[STARTS_VARIABLE])
        self._socket.settimeout(START_SECONDS)

    def wait_for(self, id: str) -> float:
        """Return the time at which this job started."""
        while id not in self._times:
            name, began = self._socket.recv(200).decode().split()
            self._times[name] = float(began)
        return self._times.pop(id)

    def forget(self) -> None:
        """Drop what was not waited for."""
        self._times.clear()
        self._socket.setblocking(False)
        try:
            while self._socket.recv(200):
                pass
        except BlockingIOError:
            self._socket.settimeout(START_SECONDS)


_report = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def report_start(id: str) -> None:
    """Report, in a worker, that it starts this job now. Without a receiver the report is lost."""
    with suppress(OSError):
        report = f"{id} {time.time()}".encode()
        _report.sendto(report, socket.MSG_DONTWAIT, os.environ[STARTS_VARIABLE])


def spread_of(values: Sequence[float]) -> str:
    """Return the median with the lower and the upper quartile."""
    if len(values) < 2:
        return f"{values[0]:.2f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"
