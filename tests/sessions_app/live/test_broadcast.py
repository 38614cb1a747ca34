"""Tests of what one frame costs: it is encoded once, read from no table, and wakes no viewer."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from uuid import UUID

import orjson
import pytest

from core.exceptions import Unauthenticated
from core.ids import uuid7
from core.websocket import WRITE_FRAME
from sessions_app.live import frames as frames_module
from sessions_app.live import hub as hub_module
from sessions_app.live.frames import Frame, encode_delta, join_deltas
from sessions_app.live.hub import LogFeed, hub
from sessions_app.live.publisher import Delta
from sessions_app.models import Session
from tests.sessions_app.live.stream_client import (
    Follower,
    application,
    connected,
    finish_answer,
    in_thread,
    say,
    write_on,
)

HEADER = 4  #: Bytes before the text of a frame of 126 to 65,535 bytes.


class DirectWrites:
    """A server that can write frames at once, and does while it is not busy."""

    def __init__(self) -> None:
        self.is_busy = False
        self.stuck = asyncio.Event()
        self.follower = Follower()
        self.written: list[bytes] = []
        self.waited: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_and_wait(message: Any) -> None:
            if message["type"] == "websocket.send":
                self.waited.append(message["text"])
                self.follower.take(orjson.loads(message["text"]))
            await send(message)
            while self.stuck.is_set():
                await asyncio.sleep(0.01)

        extended = {**scope, "extensions": {WRITE_FRAME: self.write}}
        await application(extended, receive, send_and_wait)

    def write(self, frame: bytes) -> bool:
        if self.is_busy:
            return False
        self.written.append(frame)
        self.follower.take(orjson.loads(frame[HEADER:]))
        return True


@pytest.fixture
def calls(monkeypatch) -> dict[str, int]:
    """Count how often frames are encoded and the database is read."""
    counts = {"encode": 0, "encode_frame": 0, "read": 0}

    def count(module: Any, name: str) -> None:
        original = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    count(frames_module, "encode")
    count(frames_module, "encode_frame")
    count(hub_module, "read")
    return counts


async def feed_of(session: Session, *, viewers: int) -> LogFeed:
    """Return the session's feed once so many viewers wait for frames."""
    async with asyncio.timeout(20):
        while not (feed := hub().feeds.get(f"session.{session.pk}")):
            await asyncio.sleep(0.01)
        while sum(viewer._is_idle for viewer in feed.viewers) < viewers:
            await asyncio.sleep(0.01)
    return feed


async def deliver(feed: LogFeed, event_id: UUID, offset: int, *texts: str) -> None:
    """Let deltas arrive in one moment, and wait until they are broadcast."""
    for text in texts:
        delta = Delta(
            session_id=feed.log.session_id,  # type: ignore[attr-defined]
            event_id=event_id,
            run_id=None,
            offset=offset,
            text=text,
        )
        await feed._layer.send(feed._channel, delta.message())
        offset += len(text)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_deltas_that_arrive_together_are_one_frame_encoded_once_for_all_viewers(
    async_db, session, secret, calls
):
    event_id, servers = uuid7(), [DirectWrites() for _ in range(3)]
    await in_thread(write_on)(session, event_id, 0, "Hello")
    async with (
        connected(session, secret, application=servers[0]),
        connected(session, secret, application=servers[1]),
        connected(session, secret, application=servers[2]),
    ):
        feed = await feed_of(session, viewers=3)
        calls.update(dict.fromkeys(calls, 0))

        await deliver(feed, event_id, 5, *" my dear old world")

    assert calls == {"encode": 1, "encode_frame": 1, "read": 0}
    for server in servers:
        assert server.follower.texts == {str(event_id): "Hello my dear old world"}
        assert (len(server.waited), len(server.written)) == (1, 1)


async def test_deltas_are_sent_before_the_stored_frame_that_follows_them(async_db, session, secret):
    event_id, server = uuid7(), DirectWrites()
    await in_thread(write_on)(session, event_id, 0, "Hello")
    async with connected(session, secret, application=server):
        feed = await feed_of(session, viewers=1)
        await in_thread(say)(session, "a message in between")
        await deliver(feed, event_id, 5, " and", " goodbye")
        await in_thread(finish_answer)(session, event_id, "Hello and goodbye")
        async with asyncio.timeout(20):
            while server.follower.cursor < 2:
                await asyncio.sleep(0.01)

    assert server.follower.seqs == [1, 2]
    assert server.follower.late_deltas == 0
    assert server.follower.texts == {str(event_id): "Hello and goodbye"}


async def test_what_waits_for_a_viewer_that_is_behind_is_joined(async_db, session, secret):
    event_id, server = uuid7(), DirectWrites()
    await in_thread(write_on)(session, event_id, 0, "0")
    async with connected(session, secret, application=server):
        feed = await feed_of(session, viewers=1)
        server.is_busy = True
        server.stuck.set()
        for number in range(1, 10):
            await deliver(feed, event_id, number, str(number))
        server.stuck.clear()
        await feed_of(session, viewers=1)
        server.is_busy = False
        await deliver(feed, event_id, 10, "!")

    assert server.follower.texts == {str(event_id): "0123456789!"}
    # The draft, the first delta that had to wait, and all others in one frame.
    assert [orjson.loads(text)["content"] for text in server.waited] == ["0", "1", "23456789"]
    assert [orjson.loads(frame[HEADER:])["content"] for frame in server.written] == ["!"]


async def test_a_dropped_viewer_gets_no_frame_after_that(async_db, session, secret):
    event_id, server = uuid7(), DirectWrites()
    await in_thread(write_on)(session, event_id, 0, "seen")
    async with connected(session, secret, application=server) as socket:
        feed = await feed_of(session, viewers=1)
        (viewer,) = feed.viewers
        viewer.drop(Unauthenticated())
        # Its task has not run since, so only the fault keeps the frame back.
        viewer.offer(delta(event_id, 4, " never seen"))
        assert await socket.closed() == 4401

    assert server.follower.texts == {str(event_id): "seen"}


async def test_a_page_of_frames_has_one_deadline(async_db, session, secret, monkeypatch):
    await in_thread(say)(session, *map(str, range(50)))
    deadlines = []
    original = asyncio.timeout

    def counted(seconds: float | None) -> asyncio.Timeout:
        deadlines.append(seconds)
        return original(seconds)

    async with connected(session, secret) as socket:
        monkeypatch.setattr("tenants.sockets.asyncio.timeout", counted)
        monkeypatch.setattr("tenants.sockets.SEND_SECONDS", 12.5)
        await socket.until_seq(50)

    assert deadlines.count(12.5) == 1


def delta(event_id: UUID, offset: int, text: str) -> Frame:
    return encode_delta(
        Delta(session_id=event_id, event_id=event_id, run_id=None, offset=offset, text=text)
    )


def random_frames(dice: random.Random) -> list[Frame]:
    """Return deltas of two answers, some of which start over, with stored frames in between."""
    ids, lengths, frames = [uuid7(), uuid7()], [0, 0], []
    for _ in range(40):
        nth = dice.choice([0, 0, 0, 1])
        offset = dice.choice([lengths[nth]] * 5 + [dice.randint(0, lengths[nth])])
        text = "🚂" * dice.randint(1, 3)
        lengths[nth] = offset + len(text)
        frames.append(delta(ids[nth], offset, text))
        if dice.random() < 0.1:
            frames.append(Frame(text='{"type": "lifecycle", "seq": 1}', seq=1))
    return frames


@pytest.mark.parametrize("seed", range(20))
def test_joined_frames_show_what_single_frames_show(seed):
    frames = random_frames(random.Random(seed))
    joined, single, together = join_deltas(frames), Follower(), Follower()
    for frame in frames:
        single.take(orjson.loads(frame.text))
    for frame in joined:
        together.take(orjson.loads(frame.text))

    assert together.texts == single.texts
    assert together.seqs == single.seqs
    assert len(joined) < len(frames)


def test_viewers_that_are_equally_far_behind_share_a_joined_frame():
    event_id = uuid7()
    frames = [delta(event_id, number, str(number)) for number in range(5)]
    assert join_deltas(frames)[0] is join_deltas(list(frames))[0]
