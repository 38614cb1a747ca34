"""Tests of the real web server with bodies that are too long, and requests that arrive too slowly."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from django.conf import settings

from core.request_limits import SMALL_BODY, largest_body
from memory.api.documents import MOST_BYTES
from sessions_app.api.sessions import MAX_IMPORT_BYTES
from sessions_app.resources.files import MAX_FILE_BYTES
from tenants.keys import issue_key
from tests.core.raw_http import ask, begin, finish, parse, small_server
from tests.core.test_backpressure import Server

pytestmark = pytest.mark.django_db(transaction=True)

IMPORT = "/api/v1/sessions/import/"
PLAIN = "/api/v1/agents/"
LONG = 5 * SMALL_BODY


@pytest.fixture
def key(workspace):
    return issue_key(workspace_id=workspace.pk, name="test", scope="admin").secret


def announce(server: Server, path: str, size: int, **options: Any) -> socket.socket:
    """Send the headers of a request with a body of this size, and none of the body."""
    return begin(server, path, method="POST", Content_Length=str(size), **options)


@pytest.mark.parametrize("path", [IMPORT, PLAIN, "/sign-in/", "/hooks/none/", "/nowhere/"])
def test_a_long_body_without_an_identity_is_refused_before_it_is_read(path):
    with small_server() as server:
        answer = finish(announce(server, path, LONG))

    assert (answer.status, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "headers",
    [
        {"x_api_key": "sy_wrong"},
        {"Authorization": "Bearer sy_wrong"},
        {"Cookie": f"{settings.SESSION_COOKIE_NAME}=wrong"},
    ],
)
def test_an_identity_that_is_not_valid_does_not_help(headers):
    with small_server() as server:
        assert finish(announce(server, IMPORT, LONG, **headers)).status == 401


def test_a_body_is_refused_before_it_is_read_if_its_view_takes_only_shorter_ones(key):
    with small_server() as server:
        accepted = announce(server, IMPORT, 60 * SMALL_BODY, key=key, Expect="100-continue")
        with accepted:
            assert accepted.recv(1000).startswith(b"HTTP/1.1 100 ")
        for path, size in ((PLAIN, 60 * SMALL_BODY), (IMPORT, MAX_IMPORT_BYTES + 1)):
            answer = finish(announce(server, path, size, key=key, Expect="100-continue"))
            assert (answer.status, answer.json()["code"]) == (413, "too_large")


def test_a_signed_in_person_may_send_a_long_body(browser_client):
    cookie = browser_client.cookies[settings.SESSION_COOKIE_NAME]
    with small_server() as server:
        client = announce(
            server, IMPORT, LONG, Cookie=f"{cookie.key}={cookie.value}", Expect="100-continue"
        )
        with client:
            assert client.recv(1000).startswith(b"HTTP/1.1 100 ")


@pytest.mark.parametrize("with_key", [False, True])
def test_a_body_of_unknown_length_is_counted_while_it_is_read(key, with_key):
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE if with_key else SMALL_BODY
    with small_server() as server:
        options = {"key": key} if with_key else {}
        client = begin(server, PLAIN, method="POST", Transfer_Encoding="chunked", **options)
        sent, chunk = 0, b"10000\r\n" + b"x" * 65536 + b"\r\n"
        client.settimeout(0)
        received = b""
        while not received:
            try:
                sent += client.send(chunk[sent % len(chunk) :])
            except BlockingIOError:
                time.sleep(0.01)
            except (BrokenPipeError, ConnectionResetError):
                pass
            try:
                received = client.recv(65536)
            except BlockingIOError:
                continue
        client.close()

    assert parse(received).status == (413 if with_key else 401)
    # Some megabytes more may be on their way, and are thrown away.
    assert limit < sent < limit + 16 * SMALL_BODY


def test_a_short_body_of_unknown_length_is_read(key):
    with small_server() as server:
        options = {"key": key, "Content_Type": "application/json", "Transfer_Encoding": "chunked"}
        client = begin(server, PLAIN, method="POST", **options)
        client.sendall(b"2\r\n{}\r\n0\r\n\r\n")
        answer = finish(client)

    assert (answer.status, answer.json()["errors"][0]["field"]) == (400, "name")


def test_a_long_body_arrives_complete(key, workspace):
    with small_server() as server:
        body = b'{"name": "' + b"x" * LONG + b'"}'
        answer = ask(
            server, PLAIN, key=key, method="POST", body=body, Content_Type="application/json"
        )

    assert (answer.status, answer.json()["errors"][0]["field"]) == (400, "name")


def drip(client: socket.socket, data: bytes, *, pause: float) -> bytes:
    """Send one byte after the other until the server has answered or hung up."""
    client.settimeout(pause)
    for byte in data:
        try:
            client.send(bytes([byte]))
            if received := client.recv(65536):
                return received
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            break
        return b""
    raise AssertionError("The server waited to the end.")


def test_headers_that_arrive_slowly_are_cut_off():
    with small_server(HEADER_SECONDS="1") as server, server.request("/", "X-A: b") as client:
        received = drip(client, b"x" * 10_000, pause=0.1)

    assert parse(received).status == 408


def test_a_first_line_that_arrives_slowly_is_cut_off():
    with small_server(HEADER_SECONDS="1") as server:
        client = socket.socket(socket.AF_UNIX)
        client.connect(server.path)
        with client:
            received = drip(client, b"GET /" + b"x" * 10_000, pause=0.1)

    assert parse(received).status == 408


def test_a_body_that_arrives_slowly_is_cut_off():
    with small_server(BODY_SECONDS="1") as server, announce(server, PLAIN, 10_000) as client:
        received = drip(client, b"x" * 10_000, pause=0.1)

    assert parse(received).status == 408


def test_a_body_that_keeps_coming_may_take_long(key):
    with small_server(BODY_SECONDS="2", BYTES_PER_SECOND="100") as server:
        client = announce(server, PLAIN, 10_000, key=key, Content_Type="application/json")
        for _ in range(10):
            client.sendall(b" " * 1000)
            time.sleep(0.4)
        assert finish(client).status == 400


def test_a_connection_serves_one_request_after_the_other(key):
    with small_server(HEADER_SECONDS="1") as server:
        client = server.request(PLAIN, f"x-api-key: {key}\r\n")
        for _ in range(3):
            assert client.recv(1 << 20).startswith(b"HTTP/1.1 200")
            time.sleep(1.5)  # longer than headers may take
            client.sendall(f"GET {PLAIN} HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\n\r\n".encode())
        client.recv(1 << 20)
        client.close()


@pytest.mark.parametrize(
    ("path", "least"),
    [
        (IMPORT, MAX_IMPORT_BYTES),
        ("/api/v1/memory/import/", MOST_BYTES),
        ("/api/v1/sessions/00000000-0000-0000-0000-000000000000/files/", MAX_FILE_BYTES),
        ("/sessions/00000000-0000-0000-0000-000000000000/files/", MAX_FILE_BYTES),
        (PLAIN, settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
        (PLAIN.rstrip("/"), settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
    ],
)
def test_a_view_says_how_much_it_accepts(path, least):
    assert least <= largest_body(path) <= least + SMALL_BODY


def test_a_path_without_a_view_accepts_little():
    assert largest_body("/nowhere/") == SMALL_BODY
