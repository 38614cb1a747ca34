"""What django-q2's workers call: a door into this process's lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from uuid import UUID

from sessions_app.host import LaneHost
from tenants.off_loop import let_go
from tenants.pulse import beat

#: Rung by the supervisor: it proves the whole way from NOTIFY to a worker.
PING = "ping"
#: Who serves wake-ups of other kinds, `KIND:ID`: apps to the right register themselves.
KINDS: dict[str, Callable[[str], object]] = {}


@cache
def host() -> LaneHost:
    """The lanes of this process, made in the worker itself: threads do not survive a fork."""
    return LaneHost()


def wake_many(payloads: list[str]) -> None:
    """Serve the sessions whose wake-ups arrived together."""
    if PING in payloads:
        beat("worker")
        let_go()
    sessions = []
    for payload in payloads:
        kind, _, id = payload.rpartition(":")
        if serve := KINDS.get(kind):
            serve(id)
        elif payload != PING and not kind:
            sessions.append(UUID(payload))
    if sessions:
        host().wake_many(sessions)
