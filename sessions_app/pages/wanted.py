"""What was asked for in a list of sessions, as its address says it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.expressions import Combinable
from django.http import HttpRequest, QueryDict

LONGEST_SEARCH = 200
LONGEST_CURSOR = 120
#: Which lamp stands for which status, and its word.
STATUSES = {
    "running": ("is-running", "Running"),
    "requires_action": ("is-waiting", "Needs you"),
    "rescheduling": ("is-waiting", "Trying again"),
    "idle": ("", "Idle"),
    "archived": ("", "Archived"),
}
#: By what the list can be sorted; the first is how it opens.
SORTS: dict[str, Combinable] = {
    "active": F("active_at"),
    "begun": F("created_at"),
    "events": F("last_seq"),
    "tokens": F("input_tokens") + F("output_tokens"),
    "cost": F("cost"),
    "lasted": ExpressionWrapper(F("active_at") - F("created_at"), output_field=DurationField()),
}
LEVELS = {"top": "Top level", "children": "Sub-agents", "all": "All"}


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """The last row of the page before."""

    value: Any
    pk: UUID


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Names are those of the address. An empty one asks for nothing."""

    q: str = ""
    status: str = ""
    agent: str = ""
    errors: str = ""
    approval: str = ""
    mine: str = ""
    level: str = ""
    sort: str = ""
    after: str = ""

    @classmethod
    def in_request(cls, request: HttpRequest) -> Wanted:
        return cls.in_query(request.GET)

    @classmethod
    def in_query(cls, asked: QueryDict) -> Wanted:
        """What is nonsense narrows nothing."""
        status, level, sort = asked.get("status", ""), asked.get("level", ""), asked.get("sort", "")
        return cls(
            q=asked.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH],
            status=status if status in STATUSES else "",
            agent=_id_in(asked.get("agent", "")),
            errors="1" if asked.get("errors") == "1" else "",
            approval="1" if asked.get("approval") == "1" else "",
            mine="1" if asked.get("mine") == "1" else "",
            level=level if level in LEVELS else "",
            sort=sort if sort.removeprefix("-") in SORTS and sort != "active" else "",
            after=asked.get("after", "")[:LONGEST_CURSOR],
        )

    @property
    def is_narrowed(self) -> bool:
        return any((self.q, self.status, self.agent, self.errors, self.approval, self.mine))

    @property
    def shown_level(self) -> str:
        """Whoever searches searches everything; whoever looks around begins at the top."""
        return self.level or ("all" if self.is_narrowed else "top")

    @property
    def sorted_by(self) -> str:
        return self.sort.removeprefix("-") or "active"

    @property
    def is_rising(self) -> bool:
        return self.sort.startswith("-")

    @property
    def query(self) -> str:
        """The same list from its top, without the question mark."""
        return urlencode(self.said)

    @property
    def said(self) -> list[tuple[str, str]]:
        """What is asked for, by its name in the address."""
        named = [(one.name, getattr(self, one.name)) for one in fields(self)]
        return [(name, text) for name, text in named if text and name != "after"]

    def url(self, **changed: str) -> str:
        """The address of the same list with something else. Another choice begins at its top."""
        return f"?{replace(self, **{'after': '', **changed}).query}"

    def url_after(self, value: Any, pk: UUID) -> str:
        said = urlencode({"after": f"{_write(value)}~{pk}"})
        return f"?{self.query}&{said}" if self.query else f"?{said}"

    @property
    def cursor(self) -> Cursor | None:
        """Where the page begins, or None for the top and for nonsense."""
        text, _, pk = self.after.rpartition("~")
        try:
            return Cursor(value=_read(self.sorted_by, text), pk=UUID(pk))
        except (ValueError, InvalidOperation, OverflowError):
            return None


def _id_in(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        return ""


def _write(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value // timedelta(microseconds=1))
    return str(value)


def _read(sort: str, text: str) -> Any:
    if sort in {"active", "begun"}:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("A moment without its zone.")
        return moment
    if sort == "cost":
        amount = Decimal(text)
        if not amount.is_finite() or abs(amount) > 10**8:
            raise ValueError("No amount.")
        return amount
    number = int(text)
    if abs(number) > 2**62:
        raise ValueError("Too large.")
    return timedelta(microseconds=number) if sort == "lasted" else number
