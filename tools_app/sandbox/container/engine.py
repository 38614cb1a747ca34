"""Connects to the container engine of this machine: the few calls that sandboxes need."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import httpx2
from django.conf import settings

from tools_app.exceptions import SandboxReplaced, SandboxUnavailable

#: Creating and removing containers takes a while on a busy machine.
PATIENCE_SECONDS = 60.0
MESSAGE_LENGTH = 500


@dataclass(frozen=True, kw_only=True)
class EngineResponse:
    status: int
    content: Any

    @property
    def is_missing(self) -> bool:
        return self.status == httpx2.codes.NOT_FOUND

    @property
    def is_fine(self) -> bool:
        return self.status < 400

    @property
    def message(self) -> str:
        told = self.content.get("message") if isinstance(self.content, dict) else self.content
        return str(told)[:MESSAGE_LENGTH].strip()

    def check(self) -> Any:
        """Return the content. Raise SandboxUnavailable if the engine refused."""
        if not self.is_fine:
            raise SandboxUnavailable(f"The container engine refuses: {self.message}.")
        return self.content


@dataclass(frozen=True, kw_only=True)
class Engine:
    socket: str
    client: httpx2.Client = field(repr=False)

    def request(
        self, method: str, path: str, body: object = None, **query: str | int
    ) -> EngineResponse:
        try:
            answer = self.client.request(method, f"http://engine{path}", json=body, params=query)
        except httpx2.TransportError as error:
            raise SandboxUnavailable(
                f"The container engine at {self.socket} does not answer: {error}."
            ) from error
        kind = answer.headers.get("content-type", "")
        content = answer.json() if answer.content and "json" in kind else answer.text
        return EngineResponse(status=answer.status_code, content=content)

    def request_or_raise(
        self, method: str, path: str, body: object = None, **query: str | int
    ) -> Any:
        """Return the content of the response. Raise SandboxReplaced if the container is gone."""
        answer = self.request(method, path, body, **query)
        if answer.is_missing:
            raise SandboxReplaced
        return answer.check()

    def inspect(self, name: str) -> dict[str, Any] | None:
        answer = self.request("GET", f"/containers/{name}/json")
        return None if answer.is_missing else answer.check()

    def list_labelled(self, labels: dict[str, str]) -> list[dict[str, Any]]:
        """Return the containers with all these labels, running or not."""
        wanted = json.dumps({"label": [f"{name}={value}" for name, value in labels.items()]})
        return self.request_or_raise("GET", "/containers/json", all=1, filters=wanted)

    def remove(self, name: str) -> bool:
        """Remove a container and everything in it. Return False if there is none."""
        answer = self.request("DELETE", f"/containers/{name}", force=1, v=1)
        if not answer.is_missing:
            answer.check()
        return answer.is_fine

    @cached_property
    def info(self) -> dict[str, Any]:
        return self.request_or_raise("GET", "/info")

    @cached_property
    def is_podman(self) -> bool:
        parts = self.request_or_raise("GET", "/version").get("Components") or []
        return any("podman" in str(part.get("Name", "")).lower() for part in parts)

    @property
    def is_rootless(self) -> bool:
        return any("rootless" in option for option in self.info.get("SecurityOptions") or [])


def connect() -> Engine:
    """Return the engine of this machine."""
    return _engine(find_socket(), os.getpid())


@lru_cache(maxsize=4)
def _engine(socket: str, pid: int) -> Engine:
    """Make one client per process: a forked child must not share its parent's connections."""
    # The socket is not encrypted, and loading certificates would take longer than a command.
    transport = httpx2.HTTPTransport(uds=socket, verify=False)
    client = httpx2.Client(
        transport=transport,
        timeout=PATIENCE_SECONDS,
        trust_env=False,
        # The engine may have closed a reused connection meanwhile, and a new one is cheap.
        headers={"Connection": "close"},
    )
    return Engine(socket=socket, client=client)


STREAM_PATIENCE_SECONDS = 30.0
CHUNK = 65_536
#: Before each frame: the stream's number, three zero bytes, and the length.
FRAME_HEAD = 8


class Stream:
    """Bytes both ways. `framed` is how engines multiplex the output of what has no terminal."""

    def __init__(self, engine_socket: str, path: str, body: object, *, framed: bool) -> None:
        self._framed = framed
        self._raw = bytearray()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(STREAM_PATIENCE_SECONDS)
            self._socket.connect(engine_socket)
            self._socket.sendall(_request(path, body))
            self._read_head()
        except OSError as error:
            self._socket.close()
            raise SandboxUnavailable(f"The container engine does not answer: {error}.") from error
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def buffered(self) -> bytes:
        """Return the bytes that came with the engine's response, which `select` does not report."""
        return self._payload() if self._framed else self._take(len(self._raw))

    def receive(self) -> bytes:
        """Wait for bytes; return none at the end."""
        while True:
            try:
                piece = self._socket.recv(CHUNK)
            except OSError:
                return b""
            if not piece:
                return b""
            self._raw += piece
            # Perhaps only a part of a frame came; the rest is on its way.
            if data := self.buffered():
                return data

    def skip_line(self) -> None:
        """Discard everything up to the end of the first line."""
        seen = b""
        while b"\n" not in seen:
            piece = self.receive()
            if not piece:
                return
            seen += piece
        self._raw[:0] = seen.partition(b"\n")[2]

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hang_up(self) -> None:
        """Wake the thread that waits in `receive`."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _read_head(self) -> None:
        while b"\r\n\r\n" not in self._raw:
            piece = self._socket.recv(CHUNK)
            if not piece:
                raise OSError("the connection was closed")
            self._raw += piece
        head, _, rest = bytes(self._raw).partition(b"\r\n\r\n")
        self._raw = bytearray(rest)
        status = head.split(b" ", 2)[1:2]
        if status == [b"404"]:
            raise SandboxReplaced
        if status != [b"101"]:
            raise SandboxUnavailable(
                f"The container engine opened no stream: {rest[:300].decode(errors='replace')}"
            )

    def _payload(self) -> bytes:
        pieces = []
        while len(self._raw) >= FRAME_HEAD:
            length = int.from_bytes(self._raw[4:FRAME_HEAD], "big")
            if len(self._raw) < FRAME_HEAD + length:
                break
            pieces.append(self._take(FRAME_HEAD + length)[FRAME_HEAD:])
        return b"".join(pieces)

    def _take(self, length: int) -> bytes:
        data = bytes(self._raw[:length])
        del self._raw[:length]
        return data


def _request(path: str, content: object) -> bytes:
    # Without a length, the engine would type what follows the head into the terminal.
    body = b"" if content is None else json.dumps(content).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
        f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: The kernel allows 107 bytes.
LONGEST_SOCKET_PATH = 100
SHORT_FOLDER = Path("/tmp")  # noqa: S108 (not TMPDIR: every process must compute the same folder)
IDLE_SECONDS = 120
START_SECONDS = 30.0
INSTALL = (
    "Run `make containers`, which installs Podman and builds the image, or set CONTAINER_SOCKET to "
    "the socket of a running Docker or Podman"
)


def containers_dir() -> Path:
    """Return the folder in which this installation keeps track of its containers."""
    folder = Path(settings.DATA_DIR) / "containers"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def find_socket() -> str:
    """Return the socket of an engine that answers. Raise SandboxUnavailable with advice if none does."""
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
            # Pass none of Switchyard's environment: an engine may hand parts of it to containers.
            env=_environment(),
            cwd="/",
            start_new_session=True,
        )
    # It outlives this call and perhaps this process; the thread only reaps it.
    threading.Thread(target=process.wait, daemon=True, name="container engine").start()
    until = time.monotonic() + START_SECONDS
    while not _listens(str(path)):
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            why = log.read_text(errors="replace").strip()[-300:]
            raise SandboxUnavailable(f"Podman's service did not start: {why or 'no message'}.")
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
        raise SandboxUnavailable(f"{folder} belongs to another user.")
    return folder / "engine.sock"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder: of two processes that find no service, one starts it."""
    with (folder / "engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
