"""Reads what a program in a sandbox asks of the proxy, and what is passed on of it."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from config.faults import Invalid

LARGEST_HEAD = 65_536
#: Said between two neighbours on the way, and of no concern to the server.
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
        """The request as the server gets it: to the host that was checked, and to no other.

        It ends the connection, so that no second request can follow the first one unseen.
        """
        replaced = HOP_BY_HOP | {"host"}
        kept = [(name, value) for name, value in self.headers if name.lower() not in replaced]
        shown = self.host if self.port == 80 else f"{self.host}:{self.port}"
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {shown}"]
        lines += [f"{name}: {fill(value, self.host)}" for name, value in kept]
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


def read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """The request's head, and what came after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > LARGEST_HEAD:
            raise Invalid("The head of the request is too large.")
        piece = client.recv(4096)
        if not piece:
            raise OSError("The client left before it had asked for anything.")
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
    host, port, path = _place(method, target)
    return ProxyRequest(method=method, host=host, port=port, target=path, headers=headers)


def _place(method: str, target: str) -> tuple[str, int, str]:
    """Host, port and path of what is asked for."""
    tunnel = method == "CONNECT"
    try:
        parts = urlsplit(f"//{target}" if tunnel else target)
        port = parts.port
        host = _ascii(parts.hostname or "")
    except ValueError:
        raise Invalid("This is not an address.") from None
    if parts.username is not None:
        raise Invalid("The proxy takes no password in an address.")
    if tunnel:
        if port is None:
            raise Invalid("A tunnel needs a port.")
        return host, port, ""
    if parts.scheme != "http":
        raise Invalid("The proxy serves http:// addresses, and tunnels for everything else.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if re.search(r"[\x00-\x20\x7f]", path):
        raise Invalid("This is not an address.")
    return host, port or 80, path


def _ascii(host: str) -> str:
    host = host.rstrip(".").lower()
    host = host if host.isascii() else host.encode("idna").decode()
    if not _HOST.fullmatch(host):
        raise ValueError("not a host")
    return host
