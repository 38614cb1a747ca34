"""Tests of running answers as viewers see them: complete, once, never after their event."""

from __future__ import annotations

import asyncio
import threading
from itertools import cycle

import pytest

from agents.exceptions import ProviderUnavailable
from agents.providers.base import TextDelta
from core.db import read
from core.ids import uuid7
from sessions_app.accept import accept_event
from sessions_app.models import Draft, Session
from tests.sessions_app import stage
from tests.sessions_app.conftest import serve
from tests.sessions_app.live.stream_client import (
    Follower,
    connected,
    finish_answer,
    in_thread,
    joined,
    say,
    send_late,
    write_on,
)

PIECES = ["Grüße ", "🚂🚃🚃", "aus dem Stellwerk, ", "e\u0301", "👩\u200d🔧", "\n\n", "x" * 200]


async def test_a_socket_that_reconnects_twenty_times_during_an_answer_ends_with_the_same_text(
    async_db, session, secret
):
    event_id, follower, cut = uuid7(), Follower(), asyncio.Event()
    written, pieces = "", cycle(PIECES)

    async def answer() -> None:
        nonlocal written
        while not cut.is_set():
            piece = next(pieces)
            await in_thread(write_on)(session, event_id, len(written), piece)
            written += piece
        await in_thread(finish_answer)(session, event_id, written)

    writing = asyncio.create_task(answer())
    for nth in range(20):
        async with connected(session, secret, after=follower.cursor, follower=follower) as socket:
            for _ in range(1 + nth % 4):
                await socket.frame()
    cut.set()
    async with connected(session, secret, after=follower.cursor, follower=follower) as socket:
        await socket.until_seq(1)
        for frame in follower.frames[:-1]:
            offset = frame["metadata"]["offset"]
            assert written[offset:].startswith(frame["content"])
    await writing

    assert follower.texts == {str(event_id): written}
    assert follower.seqs == [1]


async def test_a_viewer_that_joins_during_an_answer_sees_all_of_it_once(async_db, session, secret):
    event_id = uuid7()
    await in_thread(write_on)(session, event_id, 0, "🚂 Hello")
    async with connected(session, secret) as early:
        first = await early.frame()
        async with connected(session, secret) as late:
            await late.frame()
            await in_thread(write_on)(session, event_id, 7, ", world 🌍!")
            second = await late.frame()
            await in_thread(finish_answer)(session, event_id, "🚂 Hello, world 🌍!")
            await late.until_seq(1)
            await early.until_seq(1)

    assert (first["seq"], first["content"], first["metadata"]["offset"]) == (None, "🚂 Hello", 0)
    assert (second["content"], second["metadata"]["offset"]) == (", world 🌍!", 7)
    assert early.follower.frames == late.follower.frames


async def test_deltas_never_follow_their_stored_event(async_db, session, secret):
    answers = {uuid7(): f"answer {n} " * 5 for n in range(8)}
    async with connected(session, secret) as socket:
        for event_id, text in answers.items():
            await in_thread(write_on)(session, event_id, 0, text[:20])
            # The event is stored while its deltas are still on their way, and some arrive late.
            await in_thread(finish_answer)(session, event_id, text)
            await in_thread(send_late)(session, event_id, text)
        await in_thread(say)(session, "end")
        await socket.until_seq(len(answers) + 1)

    assert socket.follower.late_deltas == 0
    assert socket.follower.texts == {str(i): text for i, text in answers.items()}


async def test_a_viewer_that_joined_after_an_event_gets_no_late_delta_of_it(
    async_db, session, secret
):
    event_id = uuid7()
    await in_thread(finish_answer)(session, event_id, "done")
    async with connected(session, secret, after=1) as socket:
        await joined(session)
        await in_thread(send_late)(session, event_id, "done")
        await in_thread(say)(session, "end")
        await socket.until_seq(2)

    assert [frame["seq"] for frame in socket.follower.frames] == [2]


async def test_deltas_that_were_lost_are_made_up_from_the_draft(async_db, session, secret):
    event_id = uuid7()
    async with connected(session, secret) as socket:
        await in_thread(write_on)(session, event_id, 0, "one ")
        await socket.frame()
        await in_thread(store_without_publishing)(session, "one two ")
        await in_thread(write_on)(session, event_id, 8, "three")
        await socket.until(lambda frame: frame["content"].endswith("three"))

    assert socket.follower.texts == {str(event_id): "one two three"}


def store_without_publishing(session: Session, text: str) -> None:
    Draft.objects.filter(session=session).update(text=text)


async def test_an_answer_that_starts_over_replaces_the_shown_text(async_db, session, secret):
    event_id = uuid7()
    async with connected(session, secret) as socket:
        await in_thread(write_on)(session, event_id, 0, "wrong way")
        await socket.frame()
        await in_thread(write_on)(session, event_id, 0, "right")
        await socket.frame()

    assert socket.follower.texts == {str(event_id): "right"}


async def test_a_viewer_sees_a_real_run_start_write_and_end(
    async_db, session, secret, principal, script
):
    seen = asyncio.Event()
    loop = asyncio.get_running_loop()

    def until_seen() -> None:
        """Pause the model until the viewer has all text so far."""
        asyncio.run_coroutine_threadsafe(seen.wait(), loop).result(20)
        loop.call_soon_threadsafe(seen.clear)

    words = ["Grüße ", "🚂🚃", " e\u0301", " und 👩\u200d🔧."]
    script([part for word in words for part in (TextDelta(text=word), until_seen)])
    async with connected(session, secret) as socket:
        await read(
            accept_event, principal, session.pk, type="user.message", payload={"text": "Hello"}
        )
        running = asyncio.create_task(read(serve, session.pk))
        for number in range(len(words)):
            so_far = "".join(words[: number + 1])
            while so_far not in socket.follower.texts.values():
                await socket.frame()
            seen.set()
        await socket.until(lambda frame: frame.get("phase") == "end")
        await running

    assert [frame.get("phase") for frame in socket.follower.frames if "phase" in frame] == [
        "start",
        "end",
    ]
    assert socket.follower.late_deltas == 0
    assert list(socket.follower.texts.values()) == ["".join(words)]
    assert socket.follower.seqs == list(range(1, len(socket.follower.seqs) + 1))


@pytest.mark.usefixtures("stage_tools")
async def test_a_viewer_sees_the_draft_of_a_broken_answer_replaced(
    async_db, session, secret, principal, script
):
    gates = [threading.Event(), threading.Event()]
    cut = ProviderUnavailable("cut")
    script(
        [TextDelta(text="First t"), lambda: gates[0].wait(20), cut],
        [TextDelta(text="Second"), lambda: gates[1].wait(20), TextDelta(text=" try.")],
    )
    async with connected(session, secret) as socket:
        await in_thread(stage.say)(session, principal)
        serving = asyncio.create_task(in_thread(serve)(session.pk))
        seen: list[tuple[str, int, str]] = []
        while len(seen) < 2:
            frame = await socket.frame()
            if frame["type"] == "assistant":
                facts = frame["metadata"]
                seen.append((facts["event_id"], facts["offset"], frame["content"]))
                gates[len(seen) - 1].set()
        await serving
        await socket.until_seq(4)

    assert [(offset, text) for _, offset, text in seen] == [(0, "First t"), (0, "Second")]
    stored = await read(lambda: session.events.get(type="agent.message"))
    assert str(stored.pk) == seen[1][0] != seen[0][0]
    assert socket.follower.texts[seen[1][0]] == "Second try."
