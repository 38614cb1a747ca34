"""What django-q2's workers call: a door into this process's lanes."""

from __future__ import annotations

from functools import cache
from uuid import UUID

from sessions_app.host import LaneHost
from sessions_app.statements import let_go
from tenants.pulse import beat

#: Rung by the supervisor: it proves the whole way from NOTIFY to a worker.
PING = "ping"


@cache
def host() -> LaneHost:
    """The lanes of this process, made in the worker itself: threads do not survive a fork."""
    return LaneHost()


def wake_many(payloads: list[str]) -> None:
    """Serve the sessions whose wake-ups arrived together."""
    if PING in payloads:
        beat("worker")
        let_go()
    host().wake_many([UUID(payload) for payload in payloads if payload != PING])
