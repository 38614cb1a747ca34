"""The filters of the list of sessions, as query parameters, chips, columns and saved views."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.expressions import Combinable
from django.http import QueryDict

from agents.models import Agent
from sessions_app.models import SavedView

MAX_SEARCH_LENGTH = 200
MAX_CURSOR_LENGTH = 120
#: The lamp and the label of each status.
STATUSES = {
    "running": ("is-running", "Running"),
    "requires_action": ("is-waiting", "Needs you"),
    "rescheduling": ("is-waiting", "Trying again"),
    "idle": ("", "Idle"),
    "archived": ("", "Archived"),
}
#: The sort orders of the list. The first is the default.
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
    """The last row of the previous page."""

    value: Any
    pk: UUID


@dataclass(frozen=True, kw_only=True)
class SessionFilter:
    """The filters of the list. Fields are named like query parameters; an empty one filters nothing."""

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
    def from_query(cls, query: QueryDict) -> SessionFilter:
        """Read the filters from query parameters. Invalid values are ignored."""
        status, level, sort = query.get("status", ""), query.get("level", ""), query.get("sort", "")
        return cls(
            q=query.get("q", "").replace("\0", "").strip()[:MAX_SEARCH_LENGTH],
            status=status if status in STATUSES else "",
            agent=_parse_uuid(query.get("agent", "")),
            errors="1" if query.get("errors") == "1" else "",
            approval="1" if query.get("approval") == "1" else "",
            mine="1" if query.get("mine") == "1" else "",
            level=level if level in LEVELS else "",
            sort=sort if sort.removeprefix("-") in SORTS and sort != "active" else "",
            after=query.get("after", "")[:MAX_CURSOR_LENGTH],
        )

    @property
    def is_narrowed(self) -> bool:
        return any((self.q, self.status, self.agent, self.errors, self.approval, self.mine))

    @property
    def shown_level(self) -> str:
        """Return the level to list: everything when filtered, else the top level."""
        return self.level or ("all" if self.is_narrowed else "top")

    @property
    def sorted_by(self) -> str:
        return self.sort.removeprefix("-") or "active"

    @property
    def is_rising(self) -> bool:
        return self.sort.startswith("-")

    @property
    def query(self) -> str:
        """Return the query string of this list, from its first page."""
        return urlencode(self.said)

    @property
    def said(self) -> list[tuple[str, str]]:
        """Return the set filters as pairs of name and value."""
        pairs = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return [(name, text) for name, text in pairs if text and name != "after"]

    def url(self, **changed: str) -> str:
        """Return the address of this list with changed filters, from its first page."""
        return f"?{replace(self, **{'after': '', **changed}).query}"

    def url_after(self, value: Any, pk: UUID) -> str:
        after = urlencode({"after": f"{_format_value(value)}~{pk}"})
        return f"?{self.query}&{after}" if self.query else f"?{after}"

    @property
    def cursor(self) -> Cursor | None:
        """Return the cursor, or None for the first page and for an invalid cursor."""
        text, _, pk = self.after.rpartition("~")
        try:
            return Cursor(value=_parse_value(self.sorted_by, text), pk=UUID(pk))
        except (ValueError, InvalidOperation, OverflowError):
            return None


def _parse_uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        return ""


def _format_value(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value // timedelta(microseconds=1))
    return str(value)


def _parse_value(sort: str, text: str) -> Any:
    if sort in {"active", "begun"}:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("The time has no zone.")
        return moment
    if sort == "cost":
        amount = Decimal(text)
        if not amount.is_finite() or abs(amount) > 10**8:
            raise ValueError("The amount is out of range.")
        return amount
    number = int(text)
    if abs(number) > 2**62:
        raise ValueError("The number is out of range.")
    return timedelta(microseconds=number) if sort == "lasted" else number


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A filter that a click sets, or clears if it is on."""

    name: str
    url: str
    is_on: bool
    lamp: str = ""


@dataclass(frozen=True, kw_only=True)
class Column:
    """The head of a sortable column."""

    name: str
    key: str
    url: str
    #: The value of `aria-sort`: `ascending`, `descending` or empty.
    order: str
    is_number: bool


@dataclass(frozen=True, kw_only=True)
class View:
    """A saved view: a named set of filters."""

    view_id: UUID
    name: str
    url: str
    is_on: bool
    is_own: bool
    is_shared: bool


COLUMNS = [
    ("Last activity", "active", False),
    ("Events", "events", True),
    ("Tokens", "tokens", True),
    ("Cost", "cost", True),
    ("Duration", "lasted", True),
]
FLAGS = [("errors", "Has errors"), ("approval", "Needs approval"), ("mine", "By me")]


def status_chips(selected: SessionFilter) -> list[Chip]:
    return [
        Chip(
            name=word,
            lamp=lamp,
            is_on=selected.status == value,
            url=selected.url(status="" if selected.status == value else value),
        )
        for value, (lamp, word) in STATUSES.items()
    ]


def flag_chips(selected: SessionFilter) -> list[Chip]:
    return [
        Chip(
            name=word,
            is_on=bool(getattr(selected, name)),
            url=selected.url(**{name: "" if getattr(selected, name) else "1"}),
        )
        for name, word in FLAGS
    ]


def level_chips(selected: SessionFilter) -> list[Chip]:
    return [
        Chip(name=word, is_on=selected.shown_level == value, url=selected.url(level=value))
        for value, word in LEVELS.items()
    ]


def agent_choices(workspace_id: UUID) -> list[tuple[str, str]]:
    """Return the id and name of every agent, in one query."""
    agents = Agent.objects.for_workspace(workspace_id).active().known().select_related("current")
    return [(str(agent.pk), str(agent)) for agent in agents.order_by("created_at", "pk")]


def columns(selected: SessionFilter) -> list[Column]:
    """Return the heads of the columns. A second click reverses the order."""
    heads = []
    for name, key, is_number in COLUMNS:
        is_on = selected.sorted_by == key
        falls = is_on and not selected.is_rising
        order = "descending" if falls else "ascending" if is_on else ""
        sort = f"-{key}" if falls else "" if key == "active" else key
        url = selected.url(sort=sort)
        heads.append(Column(name=name, key=key, url=url, order=order, is_number=is_number))
    return heads


def saved_views(workspace_id: UUID, person_id: UUID | None, selected: SessionFilter) -> list[View]:
    """Return the views that this person sees, in one query."""
    views = SavedView.objects.for_workspace(workspace_id).seen_by(person_id)
    return [
        View(
            view_id=view.pk,
            name=view.name,
            url=f"?{view.query}",
            is_on=view.query == selected.query,
            is_own=view.person_id == person_id,
            is_shared=view.is_shared,
        )
        for view in views
    ]
