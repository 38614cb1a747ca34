"""Reports of usage and cost by day, member, agent, model, key or session."""

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

from core.exceptions import Invalid
from tenants.models import ApiKey, CreditEntry, ModelCall, User

#: Returns the names of these owners, which are of one kind: agent, session, member or key.
OwnerNames = Callable[[UUID, str, Iterable[UUID]], dict[UUID, str]]

GROUPS = {
    "day": TruncDate("created_at", tzinfo=UTC),
    "member": F("created_by_id"),
    "agent": F("agent_id"),
    "model": Concat("provider", Value("/"), "model"),
    "key": F("key_id"),
    "session": F("session_id"),
}
COLUMNS = ["name", "calls", "input_tokens", "output_tokens", "cost"]
MAX_SPAN = timedelta(days=366)
MAX_ROWS = 1_000


@dataclass(frozen=True, kw_only=True)
class Span:
    """A range of days by UTC, both ends included."""

    first: date
    last: date

    @classmethod
    def parse(cls, first: str | None, last: str | None) -> Span:
        """Parse two ISO dates. The default is the 30 days that end today."""
        today = datetime.now(tz=UTC).date()
        end = _day(last) or today
        begin = _day(first) or end - timedelta(days=29)
        if begin > end or end - begin > MAX_SPAN:
            raise Invalid("Ask for at most 366 days, the first before the last.")
        return cls(first=begin, last=end)

    @property
    def moments(self) -> tuple[datetime, datetime]:
        begin = datetime.combine(self.first, datetime.min.time(), tzinfo=UTC)
        return begin, begin + (self.last - self.first) + timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class UsageRow:
    """One group of a report."""

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


def report(
    workspace_id: UUID, by: str, span: Span, *, names: OwnerNames | None = None
) -> list[UsageRow]:
    """Sum up usage per group: the most expensive first, days in their order.

    `names` looks up what agents, sessions, members and keys are called.
    """
    if by not in GROUPS:
        raise Invalid(f"Usage is grouped by one of {', '.join(GROUPS)}.")
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
        .order_by(*order)[:MAX_ROWS]
    )
    rows = list(found)
    keys = [row["key"] for row in rows if row["key"]]
    named = names(workspace_id, by, keys) if names and keys else {}
    return [_row(row, named) for row in rows]


def _row(row: Any, names: dict[Any, str]) -> UsageRow:
    key = row["key"]
    return UsageRow(
        key=str(key) if key else "",
        name=names.get(key) or (str(key) if key else "none"),
        calls=row["number"],
        input_tokens=row["sum_input"],
        output_tokens=row["sum_output"],
        cost=row["sum_cost"],
    )


def totals(workspace_id: UUID, span: Span) -> dict[str, Any]:
    """Sum up all usage of these days."""
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


def csv_text(by: str, lines: Iterable[UsageRow]) -> str:
    """Write a report as CSV. Names that begin like a formula are quoted for spreadsheets."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow([by, *COLUMNS])
    for line in lines:
        name = f"'{line.name}" if line.name[:1] in "=+-@\t\r" else line.name
        # Otherwise a small amount would be written as a power of ten.
        cost = f"{line.cost:f}"
        writer.writerow([line.key, name, line.calls, line.input_tokens, line.output_tokens, cost])
    return text.getvalue()


def name_members(workspace_id: UUID, ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the names of these members by their ids."""
    people = User.objects.filter(memberships__workspace_id=workspace_id, pk__in=list(ids))
    return {person.pk: person.name or person.email for person in people}


def name_keys(workspace_id: UUID, ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the names of these API keys by their ids."""
    keys = ApiKey.objects.for_workspace(workspace_id).filter(pk__in=list(ids))
    return {key.pk: key.name for key in keys}


@dataclass(frozen=True, kw_only=True)
class Day:
    """Usage of one day by UTC. `cost` is that of models, `sandbox` that of sandboxes."""

    date: date
    calls: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    sandbox: Decimal = Decimal(0)

    @property
    def spent(self) -> Decimal:
        return self.cost + self.sandbox


def daily(workspace_id: UUID, span: Span) -> list[Day]:
    """Return the usage of every day of the span, in two queries."""
    used = {line.key: line for line in report(workspace_id, "day", span)}
    sandboxes = _sandbox_costs(workspace_id, span)
    days = []
    for count in range((span.last - span.first).days + 1):
        day = span.first + timedelta(days=count)
        line, sandbox = used.get(day.isoformat()), sandboxes.get(day, Decimal(0))
        days.append(
            Day(
                date=day,
                calls=line.calls,
                tokens=line.input_tokens + line.output_tokens,
                cost=line.cost,
                sandbox=sandbox,
            )
            if line
            else Day(date=day, sandbox=sandbox)
        )
    return days


def _sandbox_costs(workspace_id: UUID, span: Span) -> dict[date, Decimal]:
    begin, end = span.moments
    rows = (
        CreditEntry.objects.for_workspace(workspace_id)
        .filter(kind=CreditEntry.Kind.SANDBOX, created_at__gte=begin, created_at__lt=end)
        .order_by()
        .annotate(day=TruncDate("created_at", tzinfo=UTC))
        .values_list("day")
        .annotate(taken=Sum("amount"))
    )
    return {day: -taken for day, taken in rows}
