"""Checks before a start (data directory and port), and of what runs (health and hangs)."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

from django.db import Error, connections

from core.exceptions import CannotStart
from core.postgres import require_writable, unwritable
from orchestrator.launcher.guardian import LOCK
from tenants.pulse import pulse_age

PATIENCE_SECONDS = 30


def claim_data_dir(data_dir: Path) -> IO[str]:
    """Claim the data directory for this `up`, as long as the returned file stays open."""
    require_writable(data_dir)
    try:
        for name in ("locks", "logs"):
            (data_dir / name).mkdir(exist_ok=True)
        claim = os.fdopen(os.open(data_dir / "locks" / "up", os.O_RDWR | os.O_CREAT, 0o600), "r+")
    except OSError as error:
        raise unwritable(data_dir, error) from error
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = claim.read().strip() or "starting"
        raise CannotStart(
            f"Switchyard already runs on {data_dir} ({holder}). "
            "Stop it first, or choose another folder: DATA_DIR=/another/folder make run"
        ) from None
    _wait_for_guardian(data_dir)
    return claim


def sign_claim(claim: IO[str], *, address: str) -> None:
    """Write into the claim which process holds it."""
    claim.seek(0)
    claim.truncate()
    claim.write(f"process {os.getpid()}, {address}")
    claim.flush()


def _wait_for_guardian(data_dir: Path) -> None:
    """Wait until the guardian of a killed predecessor has cleaned up."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    with (data_dir / "locks" / LOCK).open("a") as lock:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.1)
            else:
                return
    raise CannotStart(
        f"An earlier start on {data_dir} is still being cleaned up. Wait a moment and start again."
    )


def require_free_port(host: str, port: int) -> None:
    """Raise CannotStart unless the port can be listened on."""
    if not 1 <= port <= 65535:
        raise CannotStart(f"PORT must be between 1 and 65535, not {port}. Try: PORT=8000 make run")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()  # two may bind with SO_REUSEADDR, but only one may listen
    except OSError as error:
        raise CannotStart(_advice(host, port, error)) from None


def _advice(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65535 else 8000
        return f"Port {port} is used by another program. Try: PORT={other} make run"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"This user may not use port {port}. Try: PORT=8000 make run"
    return (
        f"HOST {host!r} is not an address of this machine ({error}). Try: HOST=127.0.0.1 make run"
    )


PATH = "/api/v1/health/"


@dataclass(frozen=True, kw_only=True)
class Health:
    """An answer of the health check."""

    answered: bool = False
    ok: bool = False
    #: The names of the checks that failed.
    failed: list[str] = field(default_factory=list)


def reachable(host: str) -> str:
    """Return an address to reach a server that listens on `host` from this machine."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def ask_health(host: str, port: int, *, name: str, seconds: float) -> Health:
    """Ask the web server once. `name` is a host name that it accepts."""
    connection = HTTPConnection(reachable(host), port, timeout=seconds)
    try:
        connection.request("GET", PATH, headers={"Host": name, "X-Forwarded-Proto": "https"})
        answer = connection.getresponse()
        return read_health(answer.status, answer.read(100_000))
    except (OSError, HTTPException):
        return Health()
    finally:
        connection.close()


def read_health(status: int, body: bytes) -> Health:
    """Parse an answer; anything that speaks HTTP has at least answered."""
    try:
        checks = json.loads(body).get("checks", {})
    except (ValueError, AttributeError):
        checks = {}
    failed = [name for name, result in checks.items() if result not in ("ok", True)]
    return Health(answered=True, ok=status == 200, failed=failed)


CHECK_EVERY = 5.0
HANGS_AFTER = 45.0  #: Seconds without a sign of life after which a program counts as hanging.
PINGS_WITHIN = 10.0  #: A supervisor whose pulse is younger has pinged the workers lately.
#: Checks in a row that must agree: the first after a laptop woke up proves nothing.
CHECKS = 3

#: Returns the seconds since the last sign of life, or None when that is unknown.
SignOfLife = Callable[[], float | None]


class HangWatch:
    """Checks the signs of life on a background thread, so that a slow check delays nothing."""

    def __init__(self, signs: dict[str, SignOfLife]) -> None:
        self._signs = signs
        self._silent = dict.fromkeys(signs, 0)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def hangs(self, name: str) -> bool:
        return self._silent.get(name, 0) >= CHECKS

    def reset(self, name: str) -> None:
        """Count from zero, because the program was restarted."""
        self._silent[name] = 0

    def check(self) -> None:
        for name, sign in self._signs.items():
            age = sign()
            self._silent[name] = self._silent[name] + 1 if age and age > HANGS_AFTER else 0

    def _run(self) -> None:
        while not self._stopped.wait(CHECK_EVERY):
            self.check()
            connections.close_all()  # a restarted database needs new connections


def pulse_of(kind: str, *, pinged_by: str | None = None) -> SignOfLife:
    """Return a reader of the latest pulse of a kind of process, which may beat only when pinged."""

    def read() -> float | None:
        try:
            if pinged_by and (pulse_age(pinged_by) or HANGS_AFTER) > PINGS_WITHIN:
                return None  # it was not pinged, so silence proves nothing
            return pulse_age(kind)
        except Error:  # the database is unreachable, which proves nothing about the process
            return None

    return read


def answers_of(ask: Callable[[], Health]) -> SignOfLife:
    """Return a reader of the time since the web server answered, whatever it answered."""
    last = time.monotonic()

    def read() -> float:
        nonlocal last
        if ask().answered:
            last = time.monotonic()
        return time.monotonic() - last

    return read
