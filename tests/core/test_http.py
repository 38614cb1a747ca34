"""Tests that no spelling, name or redirect leads an outgoing request to a private address."""

from __future__ import annotations

import socket
from threading import Thread
from typing import Any

import httpcore2
import httpx2
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from core.exceptions import EgressRefused, Invalid
from core.http import (
    PURPOSES,
    AsyncGuardedTransport,
    GuardedBackend,
    ascii_host,
    check_host,
    guarded_client,
    is_public,
)

PRIVATE = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0",
    "0.0.0.0",  # noqa: S104
    "localhost",
    "LOCALHOST",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::10.0.0.1]",
    "[2002:7f00:1::]",
    "[2001:0:0:0:0:0:80ff:fffe]",
    "[fe80::1]",
    "[fec0::1]",
    "[fd00::1]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[2001:20::1]",
    "[4000::1]",
    "169.254.169.254",
    "0xA9FEA9FE",
    "100.100.100.200",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "192.0.0.192",
    "192.88.99.1",
    "168.63.129.16",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
]


@pytest.mark.parametrize("host", PRIVATE)
def test_no_spelling_of_a_private_address_is_contacted(host, httpserver: HTTPServer):
    httpserver.expect_request("/").respond_with_data("reached")

    with (
        guarded_client("web", timeout=5) as client,
        pytest.raises((EgressRefused, httpx2.InvalidURL)),
    ):
        client.get(f"http://{host}:{httpserver.port}/")

    assert httpserver.log == []


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "64:ff9b::1.1.1.1"]
)
def test_public_addresses_are_public(address):
    assert is_public(address)


def test_a_name_is_not_a_public_address():
    assert not is_public("example.com")


@pytest.mark.parametrize(
    "answer", [["127.0.0.1"], ["10.1.2.3"], ["1.1.1.1", "127.0.0.1"], ["1.1.1.1", "::1"]]
)
def test_a_name_with_any_private_address_is_refused(answer, httpserver: HTTPServer):
    with (
        guarded_client("web", resolve=lambda host, port: answer) as client,
        pytest.raises(EgressRefused, match=r"evil.example is not on the public internet"),
    ):
        client.get(f"http://evil.example:{httpserver.port}/")

    assert httpserver.log == []


def test_a_redirect_to_a_private_address_is_refused(httpserver: HTTPServer, settings):
    settings.EGRESS_ALLOWED_PRIVATE = [f"web=front.example:{httpserver.port}"]
    httpserver.expect_request("/go").respond_with_data(
        "", status=302, headers={"Location": f"http://127.0.0.1:{httpserver.port}/inside"}
    )
    httpserver.expect_request("/inside").respond_with_data("secret")

    with (
        guarded_client(
            "web", resolve=lambda host, port: ["127.0.0.1"], follow_redirects=True
        ) as client,
        pytest.raises(EgressRefused),
    ):
        client.get(f"http://front.example:{httpserver.port}/go")

    assert [request.path for request, _ in httpserver.log] == ["/go"]


def test_a_name_is_resolved_once_and_the_checked_address_is_used(httpserver: HTTPServer, settings):
    settings.EGRESS_ALLOWED_PRIVATE = [f"web=rebind.example:{httpserver.port}"]
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.9.9.9"]

    def answer(request: Request) -> Response:
        return Response(request.headers["Host"])

    httpserver.expect_request("/").respond_with_handler(answer)

    with guarded_client("web", resolve=resolve) as client:
        response = client.get(f"http://rebind.example:{httpserver.port}/")

    assert response.text == f"rebind.example:{httpserver.port}"
    assert asked == ["rebind.example"]


def test_the_next_address_is_tried_when_one_is_dead(httpserver: HTTPServer, settings):
    settings.EGRESS_ALLOWED_PRIVATE = [f"web=two.example:{httpserver.port}"]
    httpserver.expect_request("/").respond_with_data("alive")

    with guarded_client("web", resolve=lambda host, port: ["127.0.0.77", "127.0.0.1"]) as client:
        assert client.get(f"http://two.example:{httpserver.port}/").text == "alive"


def test_the_environments_proxy_is_not_used(httpserver: HTTPServer, settings, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    settings.EGRESS_ALLOWED_PRIVATE = [f"web=localhost:{httpserver.port}"]
    httpserver.expect_request("/").respond_with_data("direct")

    with guarded_client("web") as client:
        assert client.get(f"http://localhost:{httpserver.port}/").text == "direct"


def test_a_name_without_an_address_is_a_failed_connection():
    def resolve(host: str, port: int) -> list[str]:
        raise socket.gaierror("no such name")

    with pytest.raises(httpcore2.ConnectError, match=r"nowhere.example has no address"):
        check_host("nowhere.example", 80, resolve, purpose="web")
    with pytest.raises(httpcore2.ConnectError):
        check_host("empty.example", 80, lambda host, port: [], purpose="web")


def test_unix_sockets_are_refused():
    backend = GuardedBackend("web", lambda host, port: [])

    with pytest.raises(EgressRefused):
        backend.connect_unix_socket("/run/postgresql/.s.PGSQL.5432")


def test_a_server_that_sends_too_slowly_times_out(settings):
    """Each byte arrives in time, but the response never ends."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    settings.EGRESS_ALLOWED_PRIVATE = [f"web=localhost:{port}"]

    def drip() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            try:
                for _ in range(1_000):
                    connection.sendall(b"X-Slow: 1\r\n")
                    connection.settimeout(0.05)
                    try:
                        connection.recv(1024)
                    except TimeoutError:
                        continue
            except OSError:
                return

    dripping = Thread(target=drip)
    dripping.start()
    with (
        guarded_client("web", timeout=30, total=0.5) as client,
        pytest.raises(httpx2.TimeoutException),
    ):
        client.get(f"http://localhost:{port}/")
    dripping.join()
    server.close()


# ── Private addresses are open for one purpose ───────────────────────────────────────────────────


def is_open(purpose: Any, host: str = "server.lan", port: int = 11434) -> bool:
    try:
        check_host(host, port, lambda *_: ["10.0.0.5"], purpose=purpose)
    except EgressRefused:
        return False
    return True


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_private_address_is_open_for_the_purpose_that_its_entry_names(purpose, settings):
    settings.EGRESS_ALLOWED_PRIVATE = [f"{purpose}=server.lan:11434"]

    assert [one for one in PURPOSES if is_open(one)] == [purpose]
    assert not is_open(purpose, port=80)
    assert not is_open(purpose, host="other.lan")


def test_an_entry_without_a_purpose_is_a_model_server_and_nothing_else(settings):
    settings.EGRESS_ALLOWED_PRIVATE = ["server.lan:11434"]

    assert [one for one in PURPOSES if is_open(one)] == ["models"]


def test_a_refusal_names_the_entry_that_would_allow_the_request():
    with pytest.raises(EgressRefused, match=r"add mcp=server.lan:80 to EGRESS_ALLOWED_PRIVATE"):
        check_host("server.lan", 80, lambda *_: ["10.0.0.5"], purpose="mcp")


async def test_the_asynchronous_transport_refuses_the_server_of_another_purpose(settings):
    settings.EGRESS_ALLOWED_PRIVATE = ["models=localhost:1"]
    transport = AsyncGuardedTransport("mcp", largest=100)

    async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get("http://localhost:1/")

    assert "not on the public internet" in transport.refusal


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("\uff47\uff49\uff54\uff48\uff55\uff42.com", "github.com"),
        ("git。example", "git.example"),
        ("g\u0456thub.com", "xn--gthub-n2e.com"),  # a Cyrillic i
        ("my_host.example", "my_host.example"),
        ("2001:DB8::1", "2001:db8::1"),
    ],
)
def test_a_host_is_normalised_to_the_name_that_is_looked_up(host, name):
    assert ascii_host(host) == name


@pytest.mark.parametrize(
    "host", ["", ".", "a..b", "exa%6dple.com", "a b", "a/b", "a@b", "-a.b", "☃\u200d.."]
)
def test_what_is_not_the_name_of_a_host_is_refused(host):
    with pytest.raises(Invalid):
        ascii_host(host)
