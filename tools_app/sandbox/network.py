"""The network of a sandbox: who may be reached, and the proxy that is the only way out.

A sandbox has a network namespace with nothing in it but loopback. A small process enters it, opens
a listener there and hands it back, so the holder of the listener serves the sandbox and no program
inside is needed. When the holder dies, nothing listens any more.

The proxy, for HTTP and for tunnels, runs in the worker's process. It checks the sandbox's list of
hosts first and then connects through `core.http`, which resolves the name and connects to public
addresses only. The sandbox itself never resolves a name.
"""

from __future__ import annotations

import os
import re
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import httpcore2

from core.exceptions import EgressRefused, Invalid
from core.http import CONNECT_SECONDS, GuardedBackend, Resolver, resolve_host
from tenants.exceptions import SecretMissing, SecretRefused
from tools_app.exceptions import SandboxUnavailable

Posture: TypeAlias = Literal["none", "allowlist", "full"]
#: Fills in the secrets that the headers of a plain HTTP request name, for a host.
Fill: TypeAlias = Callable[[str, str], str]

PORT = 3128
ADDRESS = f"http://127.0.0.1:{PORT}"
#: Both spellings: programs differ in which one they read.
VARIABLES = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), ADDRESS),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1"),
}


def as_it_is(value: str, host: str) -> str:
    """Fill in nothing."""
    return value


@dataclass(frozen=True, kw_only=True)
class Network:
    posture: Posture = "none"
    #: `api.example.com`, or `*.example.com` for all its subdomains.
    hosts: tuple[str, ...] = ()
    fill: Fill = field(default=as_it_is, compare=False, repr=False)
    resolve: Resolver = field(default=resolve_host, compare=False, repr=False)

    @property
    def is_open(self) -> bool:
        return self.posture != "none"

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables that point programs inside to the proxy."""
        return VARIABLES if self.is_open else {}

    def allows(self, host: str) -> bool:
        if self.posture == "full":
            return True
        return self.is_open and any(_matches(host, pattern) for pattern in self.hosts)


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


NO_NETWORK = Network()


@contextmanager
def serve_network(network: Network, first_pid: int) -> Iterator[None]:
    """Serve the network of the sandbox with this first process, while the block runs."""
    if not network.is_open:
        yield
        return
    with listen_inside(first_pid, PORT) as listener, EgressProxy(network).serving(listener):
        yield


# ── The listener in the namespace ────────────────────────────────────────────

PATIENCE_SECONDS = 20
MESSAGE_LENGTH = 300
#: An unprivileged user may enter the namespace only from the user namespace that owns it.
ENTER = """
import ctypes, fcntl, os, socket, sys
first, port, handed = map(int, sys.argv[1:])
NEW_NET, NEW_USER, GET_OWNER = 0x40000000, 0x10000000, 0xB701
libc = ctypes.CDLL(None, use_errno=True)
def enter(fd, kind):
    if libc.setns(fd, kind):
        raise SystemExit(os.strerror(ctypes.get_errno()))
net = os.open(f"/proc/{first}/ns/net", os.O_RDONLY)
if os.path.samestat(os.fstat(net), os.stat("/proc/self/ns/net")):
    raise SystemExit("the sandbox shares the network of this machine")
if os.geteuid():
    enter(fcntl.ioctl(net, GET_OWNER), NEW_USER)
enter(net, NEW_NET)
listener = socket.create_server(("127.0.0.1", port), backlog=128)
socket.send_fds(socket.socket(fileno=handed), [b"."], [listener.fileno()])
"""


def listen_inside(first_pid: int, port: int) -> socket.socket:
    """Return a listener on the loopback of the network namespace of this process.

    The caller must pin the process, so that its pid cannot come to mean another one.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_SECONDS)
        told = subprocess.run(  # noqa: S603
            [
                *(sys.executable, "-I", "-S", "-c", ENTER),
                *(str(first_pid), str(port), str(theirs.fileno())),
            ],
            pass_fds=(theirs.fileno(),),
            capture_output=True,
            text=True,
            env={},
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if told.returncode:
            why = told.stderr.strip().rpartition("\n")[2][:MESSAGE_LENGTH]
            raise SandboxUnavailable(
                f"The network of the sandbox cannot be opened: {why}. Run Switchyard as root or as "
                "the user whose engine runs the containers, or choose the network `none`."
            )
        _, (fd, *_), _, _ = socket.recv_fds(ours, 1, 1)
    os.set_inheritable(fd, False)
    return socket.socket(fileno=fd)


# ── Requests to the proxy ────────────────────────────────────────────────────

LARGEST_HEAD = 65_536
#: Headers between two hops, which are not forwarded to the server.
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "upgrade"}
)
_METHOD = re.compile(r"[A-Z]{1,20}")
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00\r\n]*")


@dataclass(frozen=True, kw_only=True)
class ProxyRequest:
    method: str
    host: str
    port: int
    #: Path and query; empty for a tunnel.
    target: str
    headers: tuple[tuple[str, str], ...]

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    def forwarded(self, fill: Callable[[str, str], str]) -> bytes:
        """Return the request for the server, addressed to the host that was checked.

        It ends the connection, so that no second request can follow unchecked.
        """
        replaced = HOP_BY_HOP | {"host"}
        kept = [(name, value) for name, value in self.headers if name.lower() not in replaced]
        shown = self.host if self.port == 80 else f"{self.host}:{self.port}"
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {shown}"]
        lines += [f"{name}: {fill(value, self.host)}" for name, value in kept]
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


def read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """Return the head of the request, and the bytes that came after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > LARGEST_HEAD:
            raise Invalid("The head of the request is too large.")
        piece = client.recv(4096)
        if not piece:
            raise OSError("The client closed the connection before it sent a request.")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def read_request(head: bytes) -> ProxyRequest:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    target, _, version = rest.rpartition(" ")
    if not _METHOD.fullmatch(method) or version not in {"HTTP/1.0", "HTTP/1.1"}:
        raise Invalid("This is not an HTTP request.")
    if not all(map(_HEADER.fullmatch, lines)):
        raise Invalid("A header of the request is not valid.")
    headers = tuple((name, value.strip()) for name, _, value in (x.partition(":") for x in lines))
    host, port, path = _read_target(method, target)
    return ProxyRequest(method=method, host=host, port=port, target=path, headers=headers)


def _read_target(method: str, target: str) -> tuple[str, int, str]:
    """Return host, port and path of the requested address."""
    tunnel = method == "CONNECT"
    try:
        parts = urlsplit(f"//{target}" if tunnel else target)
        port = parts.port
        host = _ascii(parts.hostname or "")
    except ValueError:
        raise Invalid("This is not a valid address.") from None
    if parts.username is not None:
        raise Invalid("The proxy accepts no user name or password in an address.")
    if tunnel:
        if port is None:
            raise Invalid("A tunnel needs a port.")
        return host, port, ""
    if parts.scheme != "http":
        raise Invalid("The proxy serves http:// addresses, and tunnels for all others.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if re.search(r"[\x00-\x20\x7f]", path):
        raise Invalid("This is not a valid address.")
    return host, port or 80, path


def _ascii(host: str) -> str:
    host = host.rstrip(".").lower()
    host = host if host.isascii() else host.encode("idna").decode()
    if not _HOST.fullmatch(host):
        raise ValueError("not a host")
    return host


# ── The proxy ────────────────────────────────────────────────────────────────

MOST_CONNECTIONS = 64
HEAD_SECONDS = 30.0
#: A connection without traffic is closed after this time.
IDLE_SECONDS = 300.0
TICK_SECONDS = 1.0
CHUNK = 65_536
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class EgressProxy:
    """Serves one sandbox. All its connections are closed when the block of `serving` ends."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._backend = GuardedBackend("sandboxes", network.resolve)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()

    @contextmanager
    def serving(self, listener: socket.socket) -> Iterator[None]:
        thread = threading.Thread(target=self._accept, args=(listener,), daemon=True)
        thread.name = "egress proxy"
        thread.start()
        try:
            yield
        finally:
            self._closing.set()
            # Wakes the thread that waits in `accept`; closing alone would not.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            self._hang_up()
            thread.join(TICK_SECONDS)

    def _accept(self, listener: socket.socket) -> None:
        while not self._closing.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            if not self._keep(client):
                client.close()
                continue
            threading.Thread(
                target=self._serve, args=(client,), daemon=True, name="egress connection"
            ).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            client.settimeout(HEAD_SECONDS)
            self._relay(client, *read_head(client))
        except Invalid as fault:
            _answer(client, "400 Bad Request", fault.detail)
        except (EgressRefused, SecretMissing, SecretRefused) as fault:
            _answer(client, "403 Forbidden", fault.detail)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.ReadTimeout) as fault:
            _answer(client, "502 Bad Gateway", str(fault) or "The host could not be reached.")
        except OSError:
            pass
        finally:
            self._drop(client)

    def _relay(self, client: socket.socket, head: bytes, early: bytes) -> None:
        request = read_request(head)
        server = self._connect(request)
        if not self._keep(server):
            server.close()
            return
        try:
            if request.is_tunnel:
                client.sendall(ESTABLISHED)
            else:
                server.sendall(request.forwarded(self._network.fill))
            if early:
                server.sendall(early)
            self._pump(client, server)
        finally:
            self._drop(server)

    def _connect(self, request: ProxyRequest) -> socket.socket:
        if not self._network.allows(request.host):
            raise EgressRefused(
                f"{request.host} is not among the hosts that this environment allows."
            )
        stream = self._backend.connect_tcp(request.host, request.port, CONNECT_SECONDS)
        connection = stream.get_extra_info("socket")
        assert isinstance(connection, socket.socket)  # noqa: S101
        connection.settimeout(HEAD_SECONDS)
        return connection

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        """Relay bytes both ways until both sides are done, or the connection is idle too long."""
        until = time.monotonic() + IDLE_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while selector.get_map() and time.monotonic() < until and not self._closing.is_set():
                for key, _ in selector.select(TICK_SECONDS):
                    source = key.fileobj
                    assert isinstance(source, socket.socket)  # noqa: S101
                    until = time.monotonic() + IDLE_SECONDS
                    if data := source.recv(CHUNK):
                        key.data.sendall(data)
                        continue
                    selector.unregister(source)
                    if source is server:
                        return
                    with suppress(OSError):
                        key.data.shutdown(socket.SHUT_WR)

    def _keep(self, connection: socket.socket) -> bool:
        """Register a connection, unless there are too many or the proxy is closing."""
        with self._lock:
            if self._closing.is_set() or len(self._open) >= 2 * MOST_CONNECTIONS:
                return False
            self._open.add(connection)
            return True

    def _drop(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def _hang_up(self) -> None:
        """Only shut the sockets down: the thread that uses one closes it."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def _answer(client: socket.socket, status: str, reason: str) -> None:
    body = f"{reason}\n".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with suppress(OSError):
        client.sendall(head.encode() + body)
