"""Follows a log from Python code, with the same frames as the sockets, on its own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias
from uuid import UUID

import orjson
import structlog

from core.db import read
from sessions_app.lanes.signals import FINISHED
from sessions_app.live.frames import Body, Frame
from sessions_app.live.hub import LogFeed, Viewer
from sessions_app.live.reader import Log, SessionLog
from sessions_app.models import Run, Session
from tenants.access import ANONYMOUS

log = structlog.get_logger(__name__)

OnEvent: TypeAlias = Callable[[Body], object]
#: A notification may be lost. The log is polled after this long without one.
POLL_SECONDS = 5.0


async def follow_log(followed: Log, *, after: int) -> AsyncGenerator[list[Frame]]:
    """Yield the frames after this seq, without end; an empty list when nothing came for a while.

    The caller has checked that the reader may see the log. It is not checked again.
    """
    feed = LogFeed(followed)
    viewer = Viewer(feed, after=after, principal=ANONYMOUS)
    feed.viewers.add(viewer)
    try:
        await feed.wait_until_open()
        while True:
            frames = await viewer.next(POLL_SECONDS)
            if not frames:
                await feed.poll()
            yield frames
    finally:
        await feed.close()


def follow_run(run_id: UUID, session_id: UUID, after: int, on_event: OnEvent) -> None:
    """Call `on_event` with every frame until the run is over."""
    asyncio.run(_follow_run(run_id, session_id, after, on_event))


async def _follow_run(run_id: UUID, session_id: UUID, after: int, on_event: OnEvent) -> None:
    last: int | None = None
    async with aclosing(follow_log(SessionLog(session_id=session_id), after=after)) as batches:
        async for frames in batches:
            for frame in frames:
                on_event(orjson.loads(frame.text))
                after = frame.seq or after
            if last is None and (not frames or any(frame.seq for frame in frames)):
                last = await read(_last_seq_if_over, run_id)
            if last is not None and after >= last:
                return


def _last_seq_if_over(run_id: UUID) -> int | None:
    """Return the log's last seq if the run is over, else None."""
    if not Run.objects.filter(pk=run_id, status__in=FINISHED).exists():
        return None
    # A run ends in the commit that writes its last event, so the log is complete here.
    return Session.objects.values_list("last_seq", flat=True).get(runs=run_id)


def follow_run_in_thread(
    run_id: UUID, session_id: UUID, after: int, on_event: OnEvent
) -> threading.Thread:
    """Follow a run on another thread. A callback that fails ends that thread alone."""

    def work() -> None:
        try:
            follow_run(run_id, session_id, after, on_event)
        except Exception:
            log.exception("following_failed", run_id=str(run_id))

    thread = threading.Thread(target=work, name=f"follow {run_id}", daemon=True)
    thread.start()
    return thread
