"""Follows a log from Python: the same frames as on the sockets, on an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias
from uuid import UUID

import orjson
import structlog

from sessions_app.encoding import Frame
from sessions_app.frames import Body
from sessions_app.models import Run, Session
from sessions_app.reader import Log, SessionLog
from sessions_app.viewer import Viewer
from sessions_app.waiting import OVER
from sessions_app.watch import Watch
from tenants.access import NOBODY
from tenants.off_loop import read

log = structlog.get_logger(__name__)

OnEvent: TypeAlias = Callable[[Body], object]
#: A ring may be lost; this is how long a follower then stays in the dark.
LOOK_SECONDS = 5.0


async def frames(followed: Log, *, after: int) -> AsyncGenerator[list[Frame]]:
    """What comes after this seq, for ever. An empty list says that nothing came for a while.

    The caller has found the log, so nobody's rights are looked at again.
    """
    watch = Watch(followed)
    viewer = Viewer(watch, after=after, principal=NOBODY)
    watch.viewers.add(viewer)
    try:
        await watch.opened()
        while True:
            found = await viewer.next(LOOK_SECONDS)
            if not found:
                await watch.look()
            yield found
    finally:
        await watch.close()


def follow_run(run_id: UUID, session_id: UUID, after: int, on_event: OnEvent) -> None:
    """Hand every frame to the callback until the run is over."""
    asyncio.run(_follow_run(run_id, session_id, after, on_event))


async def _follow_run(run_id: UUID, session_id: UUID, after: int, on_event: OnEvent) -> None:
    last: int | None = None
    async with aclosing(frames(SessionLog(session_id=session_id), after=after)) as coming:
        async for found in coming:
            for frame in found:
                on_event(orjson.loads(frame.text))
                after = frame.seq or after
            if last is None and (not found or any(frame.seq for frame in found)):
                last = await read(_last_seq, run_id)
            if last is not None and after >= last:
                return


def _last_seq(run_id: UUID) -> int | None:
    """How long the log was when the run was seen to be over; None while it is not."""
    if not Run.objects.filter(pk=run_id, status__in=OVER).exists():
        return None
    # The run's end and its last event are one commit, so this is not before it.
    return Session.objects.values_list("last_seq", flat=True).get(runs=run_id)


def follow_run_in_thread(
    run_id: UUID, session_id: UUID, after: int, on_event: OnEvent
) -> threading.Thread:
    """The same beside the caller. A callback that fails ends only the following."""

    def work() -> None:
        try:
            follow_run(run_id, session_id, after, on_event)
        except Exception:
            log.exception("following_failed", run_id=str(run_id))

    thread = threading.Thread(target=work, name=f"follow {run_id}", daemon=True)
    thread.start()
    return thread
