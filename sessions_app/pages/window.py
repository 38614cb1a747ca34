"""The newest part of a log: what a chat page opens with, however long the session is."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from sessions_app.models import Session, SessionEvent

EVENTS = 200
#: A page holds fewer events when they are large.
CHARACTERS = 1_500_000


@dataclass(frozen=True, kw_only=True)
class Window:
    """Events in order, without a gap."""

    session: Session
    events: list[SessionEvent]
    #: How it was, not how it is: nothing waits in a queue beside it.
    is_past: bool = False

    @property
    def first_seq(self) -> int:
        return self.events[0].seq if self.events else 1

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    @property
    def has_earlier(self) -> bool:
        return self.first_seq > 1


def newest(session: Session, *, before: int | None = None) -> Window:
    """The last events, or the last ones before a seq. One query."""
    events = session.events.select_related("created_by").order_by("-seq")
    if before is not None:
        events = events.filter(seq__lt=before)
    kept: list[SessionEvent] = []
    size = 0
    for event in events[:EVENTS]:
        size += len(orjson.dumps(event.payload, default=str))
        if kept and size > CHARACTERS:
            break
        kept.append(event)
    return Window(session=session, events=kept[::-1])
