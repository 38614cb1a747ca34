"""`agent session events` and `agent session export`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from uuid import UUID

import orjson

from sessions_app.cli.desk import Desk
from sessions_app.following import frames
from sessions_app.frames import event_body
from sessions_app.models import SessionEvent
from sessions_app.reader import SessionLog
from sessions_app.transcript import export
from tenants.off_loop import read

#: Characters of a payload that one line shows.
SHOWN = 120


def events(desk: Desk) -> None:
    """The log after a seq; with --follow, what comes too, until Ctrl-C."""
    session_id, after = desk.session.pk, desk.asked["after"]
    for event in SessionEvent.objects.filter(session_id=session_id).after(after).iterator():
        _show(desk, event)
        after = event.seq
    if desk.asked["follow"]:
        with suppress(KeyboardInterrupt):
            asyncio.run(_follow(desk, session_id, after))


async def _follow(desk: Desk, session_id: UUID, after: int) -> None:
    async with aclosing(frames(SessionLog(session_id=session_id), after=after)) as coming:
        async for found in coming:
            if any(frame.seq for frame in found):
                for event in await read(_after, session_id, after):
                    _show(desk, event)
                    after = event.seq


def _after(session_id: UUID, seq: int) -> list[SessionEvent]:
    return list(SessionEvent.objects.filter(session_id=session_id).after(seq))


def _show(desk: Desk, event: SessionEvent) -> None:
    said = event.payload.get("text")
    text = said if isinstance(said, str) else orjson.dumps(event.payload).decode()
    line = " ".join(text.split())
    line = line if len(line) <= SHOWN else f"{line[:SHOWN]}…"
    desk.say(f"{event.seq:>5}  {event.type:<24}  {line}", **event_body(event))


def write_export(desk: Desk) -> None:
    """The whole log, one event a line, as the import takes it back."""
    for line in export(desk.session):
        desk.write(line.decode().rstrip("\n"))
