"""What a sandbox may reach: nothing, some hosts, or every public one, always through the proxy.

In every posture the sandbox has a network namespace of its own in which there is nothing but
loopback. What it may reach decides only whether a proxy listens there, and whom that serves. So
no mistake here can open the way to this machine, its neighbours or its sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tenants.egress import Resolver, resolve_host
from tools_app.sandbox.namespace import listen_inside
from tools_app.sandbox.proxy import EgressProxy

Posture: TypeAlias = Literal["none", "allowlist", "full"]
#: Puts secrets where the headers of a plain HTTP request name them, on the way to a host.
Fill: TypeAlias = Callable[[str, str], str]

PORT = 3128
ADDRESS = f"http://127.0.0.1:{PORT}"
#: Programs differ in which spelling they read.
VARIABLES = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), ADDRESS),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1"),
}


def as_it_is(value: str, host: str) -> str:
    """Nothing is put in on the way out."""
    return value


@dataclass(frozen=True, kw_only=True)
class Network:
    posture: Posture = "none"
    #: `api.example.com`, or `*.example.com` for all below it.
    hosts: tuple[str, ...] = ()
    fill: Fill = field(default=as_it_is, compare=False, repr=False)
    resolve: Resolver = field(default=resolve_host, compare=False, repr=False)

    @property
    def is_open(self) -> bool:
        return self.posture != "none"

    @property
    def variables(self) -> Mapping[str, str]:
        """What programs inside are told of the proxy."""
        return VARIABLES if self.is_open else {}

    def allows(self, host: str) -> bool:
        if self.posture == "full":
            return True
        return self.is_open and any(_matches(host, pattern) for pattern in self.hosts)


NO_NETWORK = Network()


@contextmanager
def opened(network: Network, first_pid: int) -> Iterator[None]:
    """Serve the sandbox that this process is the first of, while the block runs."""
    if not network.is_open:
        yield
        return
    with listen_inside(first_pid, PORT) as listener, EgressProxy(network).serving(listener):
        yield


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern
