"""A local webhook receiver, and a helper that waits for what arrives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

T = TypeVar("T")
TIMEOUT_SECONDS = 20.0


def wait_until(found: Callable[[], T]) -> T:
    """Return the first true result of `found`; fail when none comes in time."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not (answer := found()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return answer


class Receiver:
    """Receives webhooks: responds with 200 unless told otherwise and records every request."""

    def __init__(self, server: HTTPServer) -> None:
        self.server = server
        self.port = server.port
        self.requests: list[Request] = []
        self._scripts: dict[str, list[int]] = {}
        self._headers: Mapping[str, str] = {}
        self._hanging: set[str] = set()
        self._released = threading.Event()
        server.expect_request("/hook").respond_with_handler(self._answer)
        for path in ("/dead", "/well", "/other"):
            server.expect_request(path).respond_with_handler(self._answer)

    def url(self, path: str) -> str:
        return self.server.url_for(path)

    def respond_with(
        self, path: str, *codes: int, headers: Mapping[str, str] | None = None
    ) -> None:
        """Respond with these codes in turn, and with the last one from then on."""
        self._scripts[path] = list(codes)
        self._headers = headers or {}

    def hang(self, path: str) -> None:
        self._hanging.add(path)

    def release(self) -> None:
        self._hanging.clear()
        self._released.set()

    @property
    def ids(self) -> list[str]:
        return [request.headers["webhook-id"] for request in self.requests]

    def count(self, path: str) -> int:
        return sum(1 for request in self.requests if request.path == path)

    def first(self) -> Request | None:
        return self.requests[0] if self.requests else None

    def _answer(self, request: Request) -> Response:
        request.get_data(cache=True)
        self.requests.append(request)
        if request.path in self._hanging:
            self._released.wait(TIMEOUT_SECONDS)
        codes = self._scripts.get(request.path, [])
        code = codes.pop(0) if len(codes) > 1 else (codes or [200])[0]
        return Response(f"answer {code}", status=code, headers=dict(self._headers))
