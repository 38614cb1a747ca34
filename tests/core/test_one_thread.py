"""Tests that a request runs on one thread and asynchronous code on the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.signals import request_finished, request_started
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import include, path

from config.asgi import application

seen: dict[str, int] = {}


def plain(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"thread": threading.get_ident()})


async def asynchronous(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0)
    return JsonResponse({"thread": threading.get_ident()})


async def words() -> AsyncIterator[bytes]:
    for word in (b"one ", b"two"):
        yield word
        await asyncio.sleep(0)


def streaming(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(words())


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("inside")


def watch(get_response):
    """Create a middleware that records its thread."""

    def middleware(request: HttpRequest) -> HttpResponse:
        seen["middleware"] = threading.get_ident()
        return get_response(request)

    return middleware


urlpatterns = [
    path("api/plain/", plain),
    path("api/async/", asynchronous),
    path("api/stream/", streaming),
    path("api/broken/", broken),
    path("", include("config.urls")),
]
handler404 = "core.problems.page_not_found"
handler500 = "core.problems.server_error"


@pytest.fixture(autouse=True)
def own_routes(async_db):
    with override_settings(ROOT_URLCONF=__name__):
        yield


async def get(path: str, served_by=application) -> tuple[int, bytes, dict[str, str]]:
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"testserver")],
        "client": ["127.0.0.1", 1],
    }
    talk = ApplicationCommunicator(served_by, scope)
    await talk.send_input({"type": "http.request", "body": b""})
    start = await talk.receive_output(10)
    body, more = b"", True
    while more:
        part = await talk.receive_output(10)
        body, more = body + part.get("body", b""), part.get("more_body", False)
    await talk.wait()
    answered = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return start["status"], body, answered


async def test_a_synchronous_view_runs_outside_the_event_loop():
    status, body, headers = await get("/api/plain/")

    assert status == 200
    assert str(threading.get_ident()).encode() not in body
    assert headers["x-request-id"]


async def test_an_asynchronous_view_runs_on_the_event_loop():
    _, body, _ = await get("/api/async/")

    assert str(threading.get_ident()).encode() in body


async def test_a_stream_arrives_whole():
    assert (await get("/api/stream/"))[1] == b"one two"


async def test_errors_are_problems():
    status, body, headers = await get("/api/broken/")

    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert b"inside" not in body
    assert (await get("/api/nothing/"))[0] == 404


async def test_signals_middleware_and_view_share_a_thread_of_a_pool():
    from core.server import OneThreadHandler

    def note_start(**_: object) -> None:
        seen["start"] = threading.get_ident()

    def note_end(**_: object) -> None:
        seen["end"] = threading.get_ident()

    request_started.connect(note_start)
    request_finished.connect(note_end)
    with override_settings(MIDDLEWARE=[f"{__name__}.watch"]):
        handler = OneThreadHandler()
    threads = set()
    for _ in range(10):
        _, body, _ = await get("/api/plain/", served_by=handler)
        threads.add(json.loads(body)["thread"])

        assert set(seen.values()) == {json.loads(body)["thread"]}
    # A thread that has just answered may not count as idle yet.
    assert len(threads) <= 2
