"""A sandbox reaches the hosts that its environment allows, through the proxy, and nothing else."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from core.exceptions import Invalid
from tests.tools_app.sandbox.conftest import remade, run
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
    heard: list[tuple[str, str, dict[str, str], bytes]]


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        said = (self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
        self.server.heard.append(said)
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"served\n")

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def service(settings) -> Iterator[Server]:
    """A host that the name server knows, at an address that an administrator has allowed."""
    server = Server(("127.0.0.1", 0), Service)
    server.heard = []
    settings.EGRESS_ALLOWED_PRIVATE = [f"{HOST}:{server.server_port}"]
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
    open_to = remade(sandbox, network=network(HOST, posture=posture))

    address = f"http://{HOST}:{service.server_port}/path?a=b"
    assert run(open_to, curl(address, "--data x=1")) == "served\n"
    assert run(open_to, curl(address, "--proxytunnel")) == "served\n"

    (method, path, headers, body), _ = service.heard
    assert (method, path, body) == ("POST", "/path?a=b", b"x=1")
    assert headers["Host"] == f"{HOST}:{service.server_port}"
    assert not any(name.lower().startswith("proxy") for name in headers)


def test_another_host_is_refused_and_told_why(sandbox, service):
    listed = remade(sandbox, network=network(HOST))

    said = run(listed, curl(f"http://other.example:{service.server_port}/"))
    tunnel = run(listed, curl(f"https://other.example:{service.server_port}/"))

    assert said == "other.example is not among the hosts that this environment allows.\n"
    assert "403" in tunnel
    assert service.heard == []


@pytest.mark.parametrize("posture", ["allowlist", "full"])
def test_private_addresses_are_refused_whatever_the_list_says(sandbox, settings, posture):
    """A name of the list that leads to this machine, and addresses spelt in odd ways."""
    names = [HOST, "127.0.0.1", "localhost", "0x7f.1", "2130706433", "169.254.169.254", "[::1]"]
    hosts = [name.strip("[]") for name in names]
    open_to = remade(sandbox, network=network(*hosts, "0.0.0.1", posture=posture))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        port = server.getsockname()[1]
        output = run(
            open_to, "; ".join(curl(f"http://{name}:{port}/", "-g --noproxy ''") for name in names)
        )
        with pytest.raises(TimeoutError):
            server.accept()

    assert output.count("is not on the public internet") == len(names)


def test_without_a_network_nothing_listens(sandbox):
    output = run(sandbox, curl("http://127.0.0.1:3128/") + " 2>&1; env | grep -ci proxy")

    assert "Failed to connect" in output
    assert output.splitlines()[-1] == "0"


def test_names_are_not_resolved_inside(sandbox, service):
    listed = remade(sandbox, network=network(HOST))
    output = run(listed, "getent hosts service.example; echo $?; cat /etc/resolv.conf | wc -l")

    assert output.split()[0] == "2"


def test_the_proxy_is_gone_with_the_command(sandbox, service):
    listed = remade(sandbox, network=network(HOST))
    run(listed, "true")

    output = run(remade(sandbox), curl("http://127.0.0.1:3128/") + " 2>&1; true")
    assert "Failed to connect" in output


def test_a_secret_is_put_in_on_the_way_out_and_never_seen_inside(sandbox, service):
    def fill(value: str, host: str) -> str:
        return value.replace("{{vault:KEY}}", "of the strongbox") if host == HOST else value

    listed = remade(sandbox, network=network(HOST, fill=fill))

    address = f"http://{HOST}:{service.server_port}/"
    asked = curl(address, "-v -H 'Authorization: Bearer {{vault:KEY}}'")
    output = run(listed, asked + " 2>&1; env")

    assert service.heard[0][2]["Authorization"] == "Bearer of the strongbox"
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
def test_a_pattern_names_a_host_or_all_below_it(host, pattern, allowed):
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
def test_a_request_that_is_none_is_refused(head):
    with pytest.raises(Invalid):
        read_request(head.encode())


@pytest.mark.parametrize("target", ["EXAMPLE.com:443", "example.com.:443", "Example.Com:443"])
def test_spellings_of_one_host_are_one_host(target):
    assert read_request(f"CONNECT {target} HTTP/1.1".encode()).host == "example.com"


def test_the_host_that_was_checked_is_the_host_that_is_told():
    """A `Host` header of the client's could mean another service at the same address."""
    request = read_request(b"GET http://a.example/x HTTP/1.1\r\nHost: b.example\r\nConnection: x")

    assert request.forwarded(as_it_is) == (
        b"GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
    )


def test_the_namespace_of_this_machine_is_never_listened_in():
    with pytest.raises(SandboxUnavailable, match="shares the network of this machine"):
        listen_inside(os.getpid(), 3128)


def test_what_the_proxy_opened_is_closed_with_it(service):
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, EgressProxy(network(HOST)).serving(listener):
        client = socket.create_connection(listener.getsockname())
        client.sendall(f"CONNECT {HOST}:{service.server_port} HTTP/1.1\r\n\r\n".encode())
        assert b"200" in client.recv(100)

    client.settimeout(20)
    assert client.recv(1) == b""
    client.close()
