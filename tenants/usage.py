"""What was used and what it cost: by day, person, agent, model, key or session."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any
from uuid import UUID

from django.db.models import Count, F, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Concat, TruncDate

from config.faults import Invalid
from tenants.models import ApiKey, CreditEntry, ModelCall, User

#: Names of what is counted, for many ids at once. Other apps add their own kinds.
Namer = Callable[[UUID, Iterable[UUID]], dict[UUID, str]]
namers: dict[str, Namer] = {}

GROUPS = {
    "day": TruncDate("created_at", tzinfo=UTC),
    "member": F("created_by_id"),
    "agent": F("agent_id"),
    "model": Concat("provider", Value("/"), "model"),
    "key": F("key_id"),
    "session": F("session_id"),
}
COLUMNS = ["name", "calls", "input_tokens", "output_tokens", "cost"]
LONGEST = timedelta(days=366)
MOST_ROWS = 1_000


@dataclass(frozen=True, kw_only=True)
class Span:
    """The days that are asked for, both included, by UTC."""

    first: date
    last: date

    @classmethod
    def read(cls, first: str | None, last: str | None) -> Span:
        today = datetime.now(tz=UTC).date()
        end = _day(last) or today
        begin = _day(first) or end - timedelta(days=29)
        if begin > end or end - begin > LONGEST:
            raise Invalid("Ask for at most 366 days, the first before the last.")
        return cls(first=begin, last=end)

    @property
    def moments(self) -> tuple[datetime, datetime]:
        begin = datetime.combine(self.first, datetime.min.time(), tzinfo=UTC)
        return begin, begin + (self.last - self.first) + timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a report."""

    key: str
    name: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: Decimal


def _day(text: str | None) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        raise Invalid(f"{text!r} is not a day like 2026-01-31.") from None


def calls_within(workspace_id: UUID, span: Span) -> QuerySet[ModelCall]:
    begin, end = span.moments
    return ModelCall.objects.for_workspace(workspace_id).filter(
        created_at__gte=begin, created_at__lt=end
    )


def report(workspace_id: UUID, by: str, span: Span) -> list[Line]:
    """Sums per group; the dearest first, days in their order."""
    if by not in GROUPS:
        raise Invalid(f"Usage is told by one of {', '.join(GROUPS)}.")
    order = ["key"] if by == "day" else ["-sum_cost", "-number"]
    found = (
        calls_within(workspace_id, span)
        .order_by()
        .annotate(key=GROUPS[by])
        .values("key")
        .annotate(
            number=Count("pk"),
            sum_input=Coalesce(Sum("input_tokens"), 0),
            sum_output=Coalesce(Sum("output_tokens"), 0),
            sum_cost=Coalesce(Sum("cost"), Decimal(0)),
        )
        .order_by(*order)[:MOST_ROWS]
    )
    rows = list(found)
    names = _names(workspace_id, by, [row["key"] for row in rows if row["key"]])
    return [_line(row, names) for row in rows]


def _line(row: Any, names: dict[Any, str]) -> Line:
    key = row["key"]
    return Line(
        key=str(key) if key else "",
        name=names.get(key) or (str(key) if key else "none"),
        calls=row["number"],
        input_tokens=row["sum_input"],
        output_tokens=row["sum_output"],
        cost=row["sum_cost"],
    )


def _names(workspace_id: UUID, by: str, ids: list[Any]) -> dict[Any, str]:
    namer = namers.get(by)
    return dict(namer(workspace_id, ids)) if namer and ids else {}


def totals(workspace_id: UUID, span: Span) -> dict[str, Any]:
    """Everything of these days in one line."""
    found = calls_within(workspace_id, span).aggregate(
        calls=Count("pk"),
        input_tokens=Coalesce(Sum("input_tokens"), 0),
        output_tokens=Coalesce(Sum("output_tokens"), 0),
        cost=Coalesce(Sum("cost"), Decimal(0)),
    )
    begin, end = span.moments
    other = CreditEntry.objects.for_workspace(workspace_id).filter(
        kind=CreditEntry.Kind.SANDBOX, created_at__gte=begin, created_at__lt=end
    )
    sandboxes = other.aggregate(all=Coalesce(Sum("amount"), Decimal(0)))["all"]
    return {**found, "sandbox_cost": -sandboxes}


def csv_text(by: str, lines: Iterable[Line]) -> str:
    """The report as a table for a spreadsheet. A name cannot begin as a formula does."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow([by, *COLUMNS])
    for line in lines:
        name = f"'{line.name}" if line.name[:1] in "=+-@\t\r" else line.name
        # Plain digits: a small amount is else written as a power of ten.
        cost = f"{line.cost:f}"
        writer.writerow([line.key, name, line.calls, line.input_tokens, line.output_tokens, cost])
    return text.getvalue()


def name_members(workspace_id: UUID, ids: Iterable[UUID]) -> dict[UUID, str]:
    people = User.objects.filter(memberships__workspace_id=workspace_id, pk__in=list(ids))
    return {person.pk: person.name or person.email for person in people}


def name_keys(workspace_id: UUID, ids: Iterable[UUID]) -> dict[UUID, str]:
    keys = ApiKey.objects.for_workspace(workspace_id).filter(pk__in=list(ids))
    return {key.pk: key.name for key in keys}


namers["member"] = name_members
namers["key"] = name_keys
