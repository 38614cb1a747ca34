"""The only way out of a sandbox: a proxy for HTTP and for tunnels, in the worker's process.

It asks the sandbox's list of hosts first and `tenants.egress` second, which resolves the name and
connects to public addresses only. The sandbox itself never resolves a name.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import httpcore2

from config.faults import EgressRefused, Invalid, SecretMissing, SecretRefused
from tenants.egress import CONNECT_SECONDS, GuardedBackend
from tools_app.sandbox.proxy_request import ProxyRequest, read_head, read_request

if TYPE_CHECKING:
    from tools_app.sandbox.network import Network

MOST_CONNECTIONS = 64
HEAD_SECONDS = 30.0
#: A connection on which nothing moves for this long is closed.
IDLE_SECONDS = 300.0
TICK_SECONDS = 1.0
CHUNK = 65_536
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class EgressProxy:
    """Serves one sandbox. Everything it opened is closed when the block of `serving` ends."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._backend = GuardedBackend(network.resolve)
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
        """Carry bytes both ways until both sides have said all, or nothing moves any more."""
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
        """Remember it, unless there are too many or everything is being closed."""
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
        """Only shut down: the thread that uses a socket is the one to close it."""
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
