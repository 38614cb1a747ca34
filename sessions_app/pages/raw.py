"""Events as they are stored: a page of them, narrowed by type, and one at a time for the replay."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from sessions_app.frames import event_body
from sessions_app.models import Session, SessionEvent
from sessions_app.pages.words import lasting
from sessions_app.tool_words import subject_of

PAGE = 50
#: Characters of an event that a page shows; the whole is one request away.
SHOWN = 20_000
DIGEST = 160
TYPES = list(SessionEvent.Type.values)


@dataclass(frozen=True, kw_only=True)
class Raw:
    """One event, to be read by a person."""

    event: SessionEvent
    digest: str
    text: str
    is_clipped: bool

    @property
    def family(self) -> str:
        """`user`, `agent` or `session`."""
        return self.event.type.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class RawPage:
    rows: list[Raw]
    #: The seq before which the next page begins, or none.
    older: int | None


def read_raw(session: Session, *, before: int | None, type: str) -> RawPage:
    """The newest events first. One query."""
    events = session.events.order_by("-seq")
    if before is not None:
        events = events.filter(seq__lt=before)
    if type:
        events = events.filter(type=type)
    found = list(events[: PAGE + 1])
    older = found[PAGE - 1].seq if len(found) > PAGE else None
    return RawPage(rows=[raw_of(event) for event in found[:PAGE]], older=older)


def raw_of(event: SessionEvent) -> Raw:
    whole = orjson.dumps(event_body(event), option=orjson.OPT_INDENT_2, default=str).decode()
    return Raw(
        event=event,
        digest=digest_of(event),
        text=whole[:SHOWN],
        is_clipped=len(whole) > SHOWN,
    )


def digest_of(event: SessionEvent) -> str:
    """The one thing of an event that one wants to see first."""
    said = event.payload
    text = said.get("text") or said.get("message") or said.get("result") or said.get("error")
    if not text and "name" in said:
        text = f"{said['name']} {said.get('state') or subject_of(said['name'], said.get('input') or {})}"
    if not text and "to" in said:
        text = f"{said.get('from', '')} → {said['to']}"
    text = text or said.get("stop_reason") or said.get("mount_path") or said.get("note") or ""
    line = " ".join(str(text)[: DIGEST * 4].split())
    return line if len(line) <= DIGEST else f"{line[: DIGEST - 1]}…"


def since(event: SessionEvent, before: SessionEvent | None) -> str:
    """How long after the event before it this one came."""
    return lasting(event.created_at - before.created_at) if before else ""
