"""What must be free before anything starts: the data directory and the port."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from pathlib import Path
from typing import IO

from config.faults import CannotStart
from config.guardian import LOCK
from config.pgdata import require_writable, unwritable

PATIENCE_SECONDS = 30


def claim_data_dir(data_dir: Path) -> IO[str]:
    """Hold the data directory for this `up` alone, as long as the file given back stays open."""
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
        holder = claim.read().strip() or "starting just now"
        raise CannotStart(
            f"Switchyard already runs on {data_dir} ({holder}). "
            "Stop it first, or choose another folder: DATA_DIR=/another/folder make run"
        ) from None
    _wait_for_guardian(data_dir)
    return claim


def sign_claim(claim: IO[str], *, address: str) -> None:
    """Say in the claim who holds it."""
    claim.seek(0)
    claim.truncate()
    claim.write(f"process {os.getpid()}, {address}")
    claim.flush()


def _wait_for_guardian(data_dir: Path) -> None:
    """Let the guardian of a killed predecessor finish clearing away."""
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
        f"What an earlier start left on {data_dir} is still being cleared away. "
        "Wait a moment and start again."
    )


def require_free_port(host: str, port: int) -> None:
    """Refuse a port that cannot be listened on, before anything else is started."""
    if not 1 <= port <= 65535:
        raise CannotStart(f"PORT must be between 1 and 65535, not {port}. Try: PORT=8000 make run")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()  # two may bind with SO_REUSEADDR, only one may listen
    except OSError as error:
        raise CannotStart(_advice(host, port, error)) from None


def _advice(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65535 else 8000
        return f"Port {port} is taken by another program. Try: PORT={other} make run"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"Port {port} needs more rights than this user has. Try: PORT=8000 make run"
    return f"HOST {host!r} is no address of this machine ({error}). Try: HOST=127.0.0.1 make run"
