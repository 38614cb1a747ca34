"""Checks before a start (data directory and port), and of the health of what runs."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Any

from core.exceptions import CannotStart
from core.postgres import require_writable, unwritable
from orchestrator.launcher.guardian import LOCK

PATIENCE_SECONDS = 30
#: Connections that wait while all web processes are busy or being restarted.
BACKLOG = 1024


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


def running_address(data_dir: Path) -> str | None:
    """Return the address of the `up` that runs on this data directory, or None."""
    try:
        with (data_dir / "locks" / "up").open() as claim:
            fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        signed = (data_dir / "locks" / "up").read_text()
        return signed.partition(", ")[2].strip() or None
    except OSError:
        pass
    return None


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


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address. Raise CannotStart if that is impossible."""
    if not 1 <= port <= 65535:
        raise CannotStart(f"PORT must be between 1 and 65535, not {port}. Try: PORT=8000 make run")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _listen(socket.socket(family, kind), address)
    except OSError as error:
        raise CannotStart(_advice(host, port, error)) from None


def _listen(new: socket.socket, address: tuple[Any, ...]) -> socket.socket:
    try:
        new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        new.bind(address)
        new.listen(BACKLOG)
    except OSError:
        new.close()
        raise
    return new


def listen_for_checks() -> socket.socket:
    """Listen on a free port that only this machine reaches."""
    return socket.create_server(("127.0.0.1", 0))


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
