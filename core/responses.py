"""Responses that outlive the thread of their request: bodies that are awaited, and event streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import orjson
from django.http import StreamingHttpResponse

#: Returns the status and the body of a response.
Work: TypeAlias = Callable[[], Awaitable[tuple[int, bytes]]]


class AwaitedResponse(StreamingHttpResponse):
    """A JSON response that is known only after a wait. The wait holds no thread and no connection.

    The server calls `resolve` before it sends the status line.
    """

    def __init__(self, work: Work) -> None:
        super().__init__(self._body(), content_type="application/json")
        self._work = work
        self._content: bytes | None = None

    async def resolve(self) -> None:
        """Await the body and take over its status."""
        self.status_code, self._content = await self._work()

    async def _body(self) -> AsyncIterator[bytes]:
        if self._content is None:
            await self.resolve()
        yield self._content or b""


def event_stream(events: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """Return a response of Server-Sent Events, which no proxy may hold back."""
    return StreamingHttpResponse(
        events,
        content_type="text/event-stream",
        headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
    )


def encode_sse(data: object, *, event: str = "") -> bytes:
    """Return one event with this JSON, and its name if it has one."""
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + orjson.dumps(data) + b"\n\n"


#: Sent in a pause, or proxies take silence for a dead connection.
SSE_PING = b": ping\n\n"
