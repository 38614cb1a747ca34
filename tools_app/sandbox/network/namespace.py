"""Opens a listener inside the network namespace of a sandbox, from outside.

A sandbox has a network namespace with nothing in it but loopback. A small process enters it, opens
a listener there and hands it back, so the holder of the listener serves the sandbox and no program
inside is needed. When the holder dies, nothing listens any more.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from core.http import Resolver, resolve_host
from tools_app.exceptions import SandboxUnavailable
from tools_app.sandbox.network.proxy import EgressProxy

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
    return _listener(fd)


def _listener(fd: int) -> socket.socket:
    os.set_inheritable(fd, False)
    return socket.socket(fileno=fd)


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


NO_NETWORK = Network()


@contextmanager
def serve_network(network: Network, first_pid: int) -> Iterator[None]:
    """Serve the network of the sandbox with this first process, while the block runs."""
    if not network.is_open:
        yield
        return
    with listen_inside(first_pid, PORT) as listener, EgressProxy(network).serving(listener):
        yield


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern
