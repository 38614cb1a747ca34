"""Tests of the hub: lost notifications are made up, slow viewers cost little, all is cleaned up."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from secrets import token_hex

from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from core.db import read
from core.ids import uuid7
from sessions_app.lanes import run_queue
from sessions_app.lanes.queued_messages import list_queue, move_run
from sessions_app.live import hub as hub_module
from sessions_app.live.frames import QUEUE_MOVED
from sessions_app.live.hub import hub
from sessions_app.live.reader import PAGE_BYTES, FramePage, SessionLog
from sessions_app.log.writer import NewEvent
from sessions_app.models import Session, SessionEvent
from tenants.access import find_revoked
from tests.sessions_app.live.stream_client import (
    Follower,
    all_joined,
    connected,
    in_thread,
    joined,
    new_session,
    say,
    slow_reader,
    write_on,
)


def append_without_notify(session: Session) -> None:
    """Append to the log without a notification."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT log_append(%s, NULL, NULL, NULL, jsonb_build_array("
            "new_event('user.message', '{\"text\": \"silent\"}')))",
            [session.pk],
        )


async def test_polling_makes_up_for_a_lost_notification(async_db, session, secret, monkeypatch):
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 0.2)
    async with connected(session, secret) as socket:
        await in_thread(say)(session, "heard")
        await socket.until_seq(1)
        await in_thread(append_without_notify)(session)
        await socket.until_seq(2)

    assert socket.follower.seqs == [1, 2]


def reorder(session: Session) -> list[str]:
    """Queue two messages behind a running one, and move the second one to the front."""
    for text in ("first", "second", "third"):
        event = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": text})
        run_queue.accept(session.pk, event, on_busy="followup")
    move_run(session, list_queue(session)[-1].run_id, 0)
    return [one.text for one in list_queue(session)]


async def test_a_reordered_queue_reaches_every_viewer(async_db, session, secret):
    async with connected(session, secret) as one, connected(session, secret) as other:
        await all_joined(session, 2)
        order = await in_thread(reorder)(session)
        for socket in (one, other):
            await socket.until(lambda frame: frame["type"] == "queue")

    assert order[0] == "third"


async def test_a_reordered_queue_reaches_a_viewer_that_was_replaying(async_db, session, secret):
    async with connected(session, secret) as socket:
        viewer = await joined(session)
        viewer._is_live = False
        viewer.offer(QUEUE_MOVED)
        viewer._changed.set()
        await socket.until(lambda frame: frame["type"] == "queue")


async def test_a_reconnected_listener_makes_up_for_what_it_missed(
    async_db, session, secret, monkeypatch
):
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 600)
    async with connected(session, secret) as socket:
        await in_thread(say)(session, "heard")
        await socket.until_seq(1)
        await in_thread(append_without_notify)(session)
        await in_thread(end_listeners)()
        await socket.until_seq(2)

    assert socket.follower.seqs == [1, 2]


def end_listeners() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'switchyard listener' AND datname = current_database()"
        )


async def test_a_slow_viewer_is_dropped_with_a_code_and_resumes_without_loss(
    async_db, session, secret, monkeypatch
):
    monkeypatch.setattr("tenants.sockets.SEND_SECONDS", 0.3)
    follower, stuck = Follower(), asyncio.Event()
    async with connected(
        session, secret, follower=follower, application=slow_reader(stuck)
    ) as slow:
        await in_thread(say)(session, "first")
        await slow.until_seq(1)
        stuck.set()
        await in_thread(say)(session, *map(str, range(20)))
        await slow.until_seq(2)
        assert await slow.closed() == 4408

    async with connected(session, secret, after=follower.cursor, follower=follower) as again:
        await again.until_seq(21)
    assert follower.seqs == list(range(1, 22))


async def test_few_frames_are_buffered_for_a_slow_viewer_and_it_misses_none(
    async_db, session, secret, monkeypatch
):
    monkeypatch.setattr(hub_module, "MAX_WAITING_FRAMES", 5)
    event_id, stuck = uuid7(), asyncio.Event()
    async with connected(session, secret, application=slow_reader(stuck)) as slow:
        await in_thread(say)(session, "first")
        await slow.until_seq(1)
        stuck.set()
        for number in range(12):
            await in_thread(say)(session, str(number))
        await in_thread(write_on)(session, event_id, 0, "an answer ")
        await in_thread(say)(session, "last")
        await feed_has_read(session, 14)
        (viewer,) = hub().feeds[f"session.{session.pk}"].viewers
        assert len(viewer._waiting) <= 5
        stuck.clear()
        await slow.until_seq(14)
        await slow.until(lambda frame: frame["seq"] is None)

    assert slow.follower.seqs == list(range(1, 15))
    assert slow.follower.texts == {str(event_id): "an answer "}


async def feed_has_read(session: Session, seq: int) -> None:
    feed = hub().feeds[f"session.{session.pk}"]
    async with asyncio.timeout(20):
        while feed.last_seq < seq:
            await asyncio.sleep(0.02)


async def test_no_feeds_or_tasks_are_left_when_viewers_disconnect(async_db, session, secret):
    async with connected(session, secret), connected(session, secret) as socket:
        await in_thread(say)(session, "hello")
        await socket.until_seq(1)
        assert len(hub().feeds) == 1

    assert not hub().feeds
    tasks = {task.get_name() for task in asyncio.all_tasks()}
    assert not any(name.startswith(("pump", "follow", "open")) for name in tasks)


async def test_polling_costs_the_same_for_one_viewer_and_for_many(
    async_db, workspace, session, secret
):
    others = [await in_thread(new_session)(workspace) for _ in range(3)]
    async with AsyncExitStack() as stack:
        for target in [session, *others] * 2:
            socket = await stack.enter_async_context(connected(target, secret))
            await in_thread(say)(target, "hello")
            await socket.until_seq(1)
        feeds = list(hub().feeds.values())
        assert [len(feed.viewers) for feed in feeds] == [2] * 4

        def queries() -> int:
            with CaptureQueriesContext(connection) as captured:
                SessionLog.last_seqs([SessionLog(session_id=s.pk) for s in [session, *others]])
                find_revoked({viewer.principal for feed in feeds for viewer in feed.viewers})
            return len(captured)

        assert await in_thread(queries)() <= 3


async def test_large_events_are_read_a_few_at_a_time(async_db, session, secret):
    # Random, because PostgreSQL compresses repetitive text.
    texts = [token_hex(60_000) for _ in range(40)]
    await in_thread(say)(session, *texts)
    log = SessionLog(session_id=session.pk)
    first = await read(log.page, 0)
    assert not first.is_last
    assert sum(len(frame.text) for frame in first.frames) < 3 * PAGE_BYTES
    assert (await read(log.page, 40)) == FramePage(frames=[], is_last=True)

    async with connected(session, secret) as socket:
        await socket.until_seq(40)
    assert socket.follower.seqs == list(range(1, 41))


async def test_deleting_a_session_closes_its_viewers(async_db, session, secret):
    await in_thread(say)(session, "one", "two")
    async with connected(session, secret, after=2) as socket:
        viewer = await joined(session)
        viewer._cursor, viewer._is_live = 1, False
        await in_thread(erase)(session)
        viewer._changed.set()
        assert await socket.closed() == 4404


def erase(session: Session) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('switchyard.erasing', %s, true)", [str(session.workspace_id)]
        )
        session.delete()
