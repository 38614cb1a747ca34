"""Tests of the stream as Server-Sent Events: the frames of the socket, resumable, authorised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.test import AsyncClient

from core.exceptions import Unauthenticated
from core.ids import uuid7
from sessions_app.live.hub import hub
from sessions_app.models import Session
from tenants.models import Membership
from tests.sessions_app.live.stream_client import (
    SECONDS,
    Follower,
    connected,
    finish_answer,
    in_thread,
    key_for,
    say,
    write_on,
)


def address(session: Session) -> str:
    return f"/api/v1/sessions/{session.pk}/stream/"


class EventSource:
    """Reads frames as a browser does and remembers the last id."""

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        self._content = content
        self._waiting: list[str] = []
        self._buffer = ""
        self.last_id: str | None = None
        self.comments: list[str] = []
        self.follower = Follower()

    async def frame(self) -> dict[str, Any]:
        while True:
            while self._waiting:
                if (frame := self._read(self._waiting.pop(0))) is not None:
                    return frame
            async with asyncio.timeout(SECONDS):
                self._buffer += (await anext(self._content)).decode()
            *self._waiting, self._buffer = self._buffer.split("\n\n")

    def _read(self, block: str) -> dict[str, Any] | None:
        data = None
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            if name == "id":
                self.last_id = value
            elif name == "data":
                data = json.loads(value)
                self.follower.take(data)
            elif name == "":
                self.comments.append(value)
        return data

    async def until_seq(self, seq: int) -> None:
        while self.follower.cursor < seq:
            await self.frame()


async def get(session: Session, secret: str, query: str = "", **headers: str) -> Any:
    headers |= {"x-api-key": secret, "accept": "text/event-stream"}
    return await AsyncClient().get(address(session) + query, headers=headers)


@asynccontextmanager
async def opened(
    session: Session, secret: str, query: str = "", **headers: str
) -> AsyncIterator[EventSource]:
    response = await get(session, secret, query, **headers)
    assert response.status_code == 200
    assert response["Content-Type"] == "text/event-stream"
    assert response["X-Accel-Buffering"] == "no"
    content = aiter(response.streaming_content)
    try:
        yield EventSource(content)
    finally:
        await content.aclose()


async def test_sse_and_the_socket_deliver_identical_frames(async_db, session, secret):
    event_id = uuid7()
    await in_thread(say)(session, "old 1", "old 2")
    await in_thread(write_on)(session, event_id, 0, "Grüße ")
    async with connected(session, secret) as socket, opened(session, secret) as source:
        for _ in range(3):
            await socket.frame()
            await source.frame()
        await in_thread(write_on)(session, event_id, 6, "🚂")
        await socket.frame()
        await source.frame()
        await in_thread(finish_answer)(session, event_id, "Grüße 🚂")
        await socket.until_seq(3)
        await source.until_seq(3)

    assert source.follower.frames == socket.follower.frames
    assert source.follower.texts == {str(event_id): "Grüße 🚂"}
    assert source.last_id == "3"


async def test_a_browser_resumes_after_the_last_event_it_saw(async_db, session, secret):
    await in_thread(say)(session, *map(str, range(150)))
    async with opened(session, secret, "?after=100") as source:
        await source.until_seq(120)
    # The address still names the old cursor; the header is newer.
    resumed = opened(session, secret, "?after=100", **{"last-event-id": source.last_id or ""})
    async with resumed as again:
        await again.until_seq(150)

    assert source.follower.seqs[:20] == list(range(101, 121))
    assert again.follower.seqs == list(range(int(source.last_id or 0) + 1, 151))


async def test_an_idle_stream_sends_pings(async_db, session, secret, monkeypatch):
    monkeypatch.setattr("sessions_app.api.events.PING_SECONDS", 0.05)
    async with opened(session, secret) as source:
        reading = asyncio.create_task(source.frame())
        async with asyncio.timeout(SECONDS):
            while source.comments.count("ping") < 2:
                await asyncio.sleep(0.02)
        await in_thread(say)(session, "at last")
        assert (await reading)["seq"] == 1


async def test_a_viewer_that_disconnects_is_removed(async_db, session, secret):
    async with opened(session, secret) as source:
        await in_thread(say)(session, "hello")
        await source.until_seq(1)
        reading = asyncio.create_task(source.frame())
        await asyncio.sleep(0.05)
        assert hub().feeds
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    assert not hub().feeds


async def test_the_stream_of_a_dropped_viewer_ends(async_db, session, secret):
    async with opened(session, secret) as source:
        await in_thread(say)(session, "hello")
        await source.until_seq(1)
        (viewer,) = hub().feeds[f"session.{session.pk}"].viewers
        viewer.drop(Unauthenticated())
        with pytest.raises(StopAsyncIteration):
            await source.frame()


async def test_the_stream_of_a_person_ends_when_they_leave_the_workspace(
    async_db, session, owner, monkeypatch
):
    monkeypatch.setattr("sessions_app.live.hub.POLL_SECONDS", 0.1)
    client = AsyncClient()
    await client.aforce_login(owner)
    response: Any = await client.get(address(session))
    source = EventSource(aiter(response.streaming_content))
    await in_thread(say)(session, "hello")
    await source.until_seq(1)
    await in_thread(Membership.objects.filter(user=owner).delete)()

    with pytest.raises(StopAsyncIteration):
        await source.frame()


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [("", 404, "not_found"), ("?after=x", 400, "invalid"), ("?after=-1", 400, "invalid")],
)
async def test_an_invalid_or_foreign_request_is_refused_as_a_problem(
    async_db, session, secret, foreign_workspace, query, status, code
):
    key = await in_thread(key_for)(foreign_workspace) if status == 404 else secret
    response = await get(session, key, query)

    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == code


async def test_a_request_without_an_identity_is_refused(async_db, session):
    response = await AsyncClient().get(address(session))

    assert response.status_code == 401
    assert response["WWW-Authenticate"]


async def test_streams_count_as_open_sockets_of_their_key(async_db, settings, session, secret):
    settings.SOCKETS_PER_CALLER = 1
    async with opened(session, secret) as source:
        assert await anext(source._content)
        refused = await get(session, secret)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_sockets")

    async with asyncio.timeout(SECONDS):
        while (await get(session, secret)).status_code == 429:
            await asyncio.sleep(0.01)  # The loop closes the generator of the stream a little later.
