"""Tests that a sandbox reaches only the hosts its environment allows, through the proxy."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from core.exceptions import Invalid
from tests.tools_app.sandbox.conftest import reconfigured, run
from tools_app.exceptions import SandboxUnavailable
from tools_app.sandbox.network import (
    EgressProxy,
    Network,
    Posture,
    as_it_is,
    listen_inside,
    read_request,
)

HOST = "service.example"


class Server(ThreadingHTTPServer):
    requests: list[tuple[str, str, dict[str, str], bytes]]


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        received = (self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
        self.server.requests.append(received)
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"served\n")

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def service(settings) -> Iterator[Server]:
    """Start a host that resolves, at an address that the operator has allowed."""
    server = Server(("127.0.0.1", 0), Service)
    server.requests = []
    settings.EGRESS_ALLOWED_PRIVATE = [f"sandboxes={HOST}:{server.server_port}"]
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def resolve(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def network(*hosts: str, posture: Posture = "allowlist", **options) -> Network:
    return Network(posture=posture, hosts=hosts, resolve=resolve, **options)


def curl(address: str, *options: str) -> str:
    return f"curl -sS --max-time 20 {' '.join(options)} {address}"


@pytest.mark.parametrize("posture", ["allowlist", "full"])
def test_an_allowed_host_is_reached(sandbox, service, posture):
    open_to = reconfigured(sandbox, network=network(HOST, posture=posture))

    address = f"http://{HOST}:{service.server_port}/path?a=b"
    assert run(open_to, curl(address, "--data x=1")) == "served\n"
    assert run(open_to, curl(address, "--proxytunnel")) == "served\n"

    (method, path, headers, body), _ = service.requests
    assert (method, path, body) == ("POST", "/path?a=b", b"x=1")
    assert headers["Host"] == f"{HOST}:{service.server_port}"
    assert not any(name.lower().startswith("proxy") for name in headers)


def test_another_host_is_refused_with_a_reason(sandbox, service):
    listed = reconfigured(sandbox, network=network(HOST))

    refusal = run(listed, curl(f"http://other.example:{service.server_port}/"))
    tunnel = run(listed, curl(f"https://other.example:{service.server_port}/"))

    assert refusal == "other.example is not among the hosts that this environment allows.\n"
    assert "403" in tunnel
    assert service.requests == []


@pytest.mark.parametrize("posture", ["allowlist", "full"])
def test_private_addresses_are_refused_even_if_listed(sandbox, settings, posture):
    """Covers a listed name that resolves to this machine and unusual spellings of addresses."""
    names = [HOST, "127.0.0.1", "localhost", "0x7f.1", "2130706433", "169.254.169.254", "[::1]"]
    hosts = [name.strip("[]") for name in names]
    open_to = reconfigured(sandbox, network=network(*hosts, "0.0.0.1", posture=posture))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        port = server.getsockname()[1]
        output = run(
            open_to, "; ".join(curl(f"http://{name}:{port}/", "-g --noproxy ''") for name in names)
        )
        with pytest.raises(TimeoutError):
            server.accept()

    assert output.count("is not on the public internet") == len(names)


def test_no_proxy_listens_without_a_network(sandbox):
    output = run(sandbox, curl("http://127.0.0.1:3128/") + " 2>&1; env | grep -ci proxy")

    assert "Failed to connect" in output
    assert output.splitlines()[-1] == "0"


def test_names_are_not_resolved_in_the_sandbox(sandbox, service):
    listed = reconfigured(sandbox, network=network(HOST))
    output = run(listed, "getent hosts service.example; echo $?; cat /etc/resolv.conf | wc -l")

    assert output.split()[0] == "2"


def test_the_proxy_ends_with_the_command(sandbox, service):
    listed = reconfigured(sandbox, network=network(HOST))
    run(listed, "true")

    output = run(reconfigured(sandbox), curl("http://127.0.0.1:3128/") + " 2>&1; true")
    assert "Failed to connect" in output


def test_a_secret_is_filled_in_by_the_proxy_and_never_visible_in_the_sandbox(sandbox, service):
    def fill(value: str, host: str) -> str:
        return value.replace("{{vault:KEY}}", "of the strongbox") if host == HOST else value

    listed = reconfigured(sandbox, network=network(HOST, fill=fill))

    address = f"http://{HOST}:{service.server_port}/"
    asked = curl(address, "-v -H 'Authorization: Bearer {{vault:KEY}}'")
    output = run(listed, asked + " 2>&1; env")

    assert service.requests[0][2]["Authorization"] == "Bearer of the strongbox"
    assert "strongbox" not in output


@pytest.mark.parametrize(
    ("host", "pattern", "allowed"),
    [
        ("example.com", "example.com", True),
        ("a.example.com", "example.com", False),
        ("a.example.com", "*.example.com", True),
        ("a.b.example.com", "*.example.com", True),
        ("example.com", "*.example.com", False),
        ("notexample.com", "*.example.com", False),
        ("example.com.evil.net", "*.example.com", False),
        (".example.com", "*.example.com", False),
    ],
)
def test_a_pattern_matches_a_host_or_all_its_subdomains(host, pattern, allowed):
    assert network(pattern).allows(host) is allowed


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1",
        "GET https://example.com/ HTTP/1.1",
        "GET http://user:pass@example.com/ HTTP/1.1",
        "GET http://example.com:99999/ HTTP/1.1",
        "GET http://exa mple.com/ HTTP/1.1",
        "CONNECT example.com HTTP/1.1",
        "CONNECT :443 HTTP/1.1",
        "GET http://example.com/ HTTP/2",
        "nonsense",
        "GET http://example.com/ HTTP/1.1\r\nbad header",
        "GET http://example.com/ HTTP/1.1\r\nName: a\nInjected: b",
    ],
)
def test_a_malformed_request_is_refused(head):
    with pytest.raises(Invalid):
        read_request(head.encode())


@pytest.mark.parametrize("target", ["EXAMPLE.com:443", "example.com.:443", "Example.Com:443"])
def test_spellings_of_a_host_are_normalised(target):
    assert read_request(f"CONNECT {target} HTTP/1.1".encode()).host == "example.com"


def test_the_host_header_is_the_host_that_was_checked():
    """A `Host` header from the client could select another service at the same address."""
    request = read_request(b"GET http://a.example/x HTTP/1.1\r\nHost: b.example\r\nConnection: x")

    assert request.forwarded(as_it_is) == (
        b"GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
    )


def test_the_proxy_never_listens_in_the_hosts_namespace():
    with pytest.raises(SandboxUnavailable, match="shares the network of this machine"):
        listen_inside(os.getpid(), 3128)


def test_the_proxys_connections_close_with_it(service):
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, EgressProxy(network(HOST)).serving(listener):
        client = socket.create_connection(listener.getsockname())
        client.sendall(f"CONNECT {HOST}:{service.server_port} HTTP/1.1\r\n\r\n".encode())
        assert b"200" in client.recv(100)

    client.settimeout(20)
    assert client.recv(1) == b""
    client.close()
