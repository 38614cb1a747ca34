"""Finds the container engine of this machine, or starts Podman's service when none listens.

A service that was started here ends by itself a while after its last use; what runs in
containers does not depend on it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from config.faults import SandboxUnavailable

PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: The kernel allows 107 bytes.
LONGEST_SOCKET_PATH = 100
SHORT_FOLDER = Path("/tmp")  # noqa: S108 (not TMPDIR: every process must compute the same folder)
IDLE_SECONDS = 120
START_SECONDS = 30.0
INSTALL = (
    "Run `make containers`, which installs Podman and makes the image, or set CONTAINER_SOCKET to "
    "the socket of a Docker or Podman that runs"
)


def containers_dir() -> Path:
    """What this installation remembers of its containers."""
    folder = Path(settings.DATA_DIR) / "containers"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def find_socket() -> str:
    """The socket of an engine that answers, or a refusal that says how to get one."""
    if told := settings.CONTAINER_SOCKET.removeprefix("unix://"):
        if not _listens(told):
            raise SandboxUnavailable(f"No container engine listens at CONTAINER_SOCKET, {told}.")
        return told
    for path in (*_usual(), str(_own_socket())):
        if _listens(path):
            return path
    return _start_service()


def _usual() -> list[str]:
    if os.geteuid() == 0:
        return ["/run/podman/podman.sock", "/var/run/docker.sock"]
    runtime = f"/run/user/{os.geteuid()}"
    return [f"{runtime}/podman/podman.sock", f"{runtime}/docker.sock", "/var/run/docker.sock"]


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _start_service() -> str:
    podman = shutil.which("podman", path=PLACES)
    if podman is None:
        raise SandboxUnavailable(f"No container engine runs on this machine. {INSTALL}.")
    path = _own_socket()
    with _alone(path.parent):
        if not _listens(str(path)):
            path.unlink(missing_ok=True)
            _run_service(podman, path)
    return str(path)


def _run_service(podman: str, path: Path) -> None:
    runtime = ["--runtime", "runc"] if shutil.which("runc", path=PLACES) else []
    log = path.with_suffix(".log")
    with log.open("wb") as said:
        process = subprocess.Popen(  # noqa: S603
            [podman, *runtime, "system", "service", f"--time={IDLE_SECONDS}", f"unix://{path}"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            # Nothing of Switchyard's environment: an engine may pass parts of its own on.
            env=_environment(),
            cwd="/",
            start_new_session=True,
        )
    # It outlives this call and perhaps this process, and nobody has to wait for it.
    threading.Thread(target=process.wait, daemon=True, name="container engine").start()
    until = time.monotonic() + START_SECONDS
    while not _listens(str(path)):
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            why = log.read_text(errors="replace").strip()[-300:]
            raise SandboxUnavailable(f"Podman's service does not start: {why or 'it is silent'}.")
        time.sleep(0.05)


def _environment() -> dict[str, str]:
    home = os.path.expanduser("~")
    return {"PATH": PLACES, "HOME": home, "XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"} | (
        {"XDG_RUNTIME_DIR": "/run"} if os.geteuid() == 0 else {}
    )


def _own_socket() -> Path:
    path = containers_dir() / "engine.sock"
    if len(bytes(path)) <= LONGEST_SOCKET_PATH:
        return path
    name = hashlib.sha256(bytes(path)).hexdigest()[:16]
    folder = SHORT_FOLDER / f"switchyard-engine-{os.geteuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.geteuid():
        raise SandboxUnavailable(f"{folder} belongs to somebody else.")
    return folder / "engine.sock"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two processes that find no service start one together."""
    with (folder / "engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
