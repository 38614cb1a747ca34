"""Tests that no spelling, name or redirect leads an outgoing request to a private address."""

from __future__ import annotations

import socket
from threading import Thread

import httpcore2
import httpx2
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from core.exceptions import EgressRefused
from core.http import GuardedBackend, check_host, guarded_client, is_public

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

    with guarded_client(timeout=5) as client, pytest.raises((EgressRefused, httpx2.InvalidURL)):
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
        guarded_client(resolve=lambda host, port: answer) as client,
        pytest.raises(EgressRefused, match=r"evil.example is not on the public internet"),
    ):
        client.get(f"http://evil.example:{httpserver.port}/")

    assert httpserver.log == []


def test_a_redirect_to_a_private_address_is_refused(httpserver: HTTPServer, settings):
    settings.EGRESS_ALLOWED_PRIVATE = [f"front.example:{httpserver.port}"]
    httpserver.expect_request("/go").respond_with_data(
        "", status=302, headers={"Location": f"http://127.0.0.1:{httpserver.port}/inside"}
    )
    httpserver.expect_request("/inside").respond_with_data("secret")

    with (
        guarded_client(resolve=lambda host, port: ["127.0.0.1"], follow_redirects=True) as client,
        pytest.raises(EgressRefused),
    ):
        client.get(f"http://front.example:{httpserver.port}/go")

    assert [request.path for request, _ in httpserver.log] == ["/go"]


def test_a_name_is_resolved_once_and_the_checked_address_is_used(httpserver: HTTPServer, settings):
    settings.EGRESS_ALLOWED_PRIVATE = [f"rebind.example:{httpserver.port}"]
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.9.9.9"]

    def answer(request: Request) -> Response:
        return Response(request.headers["Host"])

    httpserver.expect_request("/").respond_with_handler(answer)

    with guarded_client(resolve=resolve) as client:
        response = client.get(f"http://rebind.example:{httpserver.port}/")

    assert response.text == f"rebind.example:{httpserver.port}"
    assert asked == ["rebind.example"]


def test_the_next_address_is_tried_when_one_is_dead(httpserver: HTTPServer, settings):
    settings.EGRESS_ALLOWED_PRIVATE = [f"two.example:{httpserver.port}"]
    httpserver.expect_request("/").respond_with_data("alive")

    with guarded_client(resolve=lambda host, port: ["127.0.0.77", "127.0.0.1"]) as client:
        assert client.get(f"http://two.example:{httpserver.port}/").text == "alive"


def test_the_environments_proxy_is_not_used(httpserver: HTTPServer, settings, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    settings.EGRESS_ALLOWED_PRIVATE = [f"localhost:{httpserver.port}"]
    httpserver.expect_request("/").respond_with_data("direct")

    with guarded_client() as client:
        assert client.get(f"http://localhost:{httpserver.port}/").text == "direct"


def test_a_name_without_an_address_is_a_failed_connection():
    def resolve(host: str, port: int) -> list[str]:
        raise socket.gaierror("no such name")

    with pytest.raises(httpcore2.ConnectError, match=r"nowhere.example has no address"):
        check_host("nowhere.example", 80, resolve)
    with pytest.raises(httpcore2.ConnectError):
        check_host("empty.example", 80, lambda host, port: [])


def test_unix_sockets_are_refused():
    with pytest.raises(EgressRefused):
        GuardedBackend(lambda host, port: []).connect_unix_socket("/run/postgresql/.s.PGSQL.5432")


def test_a_server_that_sends_too_slowly_times_out(settings):
    """Each byte arrives in time, but the response never ends."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    settings.EGRESS_ALLOWED_PRIVATE = [f"localhost:{port}"]

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
    with guarded_client(timeout=30, total=0.5) as client, pytest.raises(httpx2.TimeoutException):
        client.get(f"http://localhost:{port}/")
    dripping.join()
    server.close()
