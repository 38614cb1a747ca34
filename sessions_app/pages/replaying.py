"""A session as it stood when one event had just been written."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from sessions_app.models import Session, SessionEvent
from sessions_app.pages.lines import Line
from sessions_app.pages.raw import Raw, raw_of, since
from sessions_app.pages.telling import tell
from sessions_app.pages.window import Window

E = SessionEvent.Type
#: Events before the one that is shown.
LOOK_BACK = 40


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The event, what had been said by then, and the way on."""

    at: int
    last: int
    current: Raw | None
    since: str
    lines: list[Line]

    @property
    def earlier(self) -> int:
        return max(1, self.at - 1)

    @property
    def later(self) -> int:
        return min(self.last, self.at + 1)


def moment_at(session: Session, at: int | None) -> Moment:
    """The first event unless another is asked for. The queries do not grow with the session."""
    place = min(max(1, at or 1), max(1, session.last_seq))
    events = session.events.select_related("created_by").filter(
        seq__gt=place - LOOK_BACK, seq__lte=place
    )
    window = list(events.order_by("seq"))
    then = copy(session)
    is_now = place >= session.last_seq
    then.status = status_then(window, session.status if is_now else "running")
    lines = tell(Window(session=then, events=window, is_past=True)) if window else []
    last = window[-1] if window else None
    before = window[-2] if len(window) > 1 else None
    return Moment(
        at=place,
        last=session.last_seq,
        current=raw_of(last) if last else None,
        since=since(last, before) if last else "",
        lines=lines,
    )


def status_then(events: list[SessionEvent], otherwise: str) -> str:
    """What the session was doing after these events, as far as they say."""
    for event in reversed(events):
        if event.type == E.STATUS_IDLE:
            waits = event.payload.get("stop_reason") == "requires_action"
            return "requires_action" if waits else "idle"
        if event.type == E.STATUS_CHANGED:
            return str(event.payload.get("to", "running"))
    return otherwise
