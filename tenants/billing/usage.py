"""Reports of usage and cost by day, member, agent, model, key or session.

Reports read daily sums, into which calls are folded in the background, and the few calls that are
not folded yet: what a report costs does not depend on the number of calls. See `sql/usage.sql`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any
from uuid import UUID

from django.db.models import Sum

from core.db import prepared_rows
from core.exceptions import Invalid
from tenants.models import ApiKey, UsageRollup, User

#: Returns the names of these owners, which are of one kind: agent, session, member or key.
OwnerNames = Callable[[UUID, str, Iterable[UUID]], dict[UUID, str]]

Dimension = UsageRollup.Dimension
GROUPS = {
    "day": Dimension.TOTAL,
    "member": Dimension.MEMBER,
    "agent": Dimension.AGENT,
    "model": Dimension.MODEL,
    "key": Dimension.KEY,
    "session": Dimension.SESSION,
}
#: The groupings by which the cost of sandboxes is split, and the column of their sums.
SANDBOX_GROUPS = {"day": "day", "member": "key"}
COLUMNS = ["name", "calls", "input_tokens", "output_tokens", "cached_tokens", "cost"]
MAX_SPAN = timedelta(days=366)
MAX_ROWS = 1_000
#: The rows of a page. Days are always shown together.
PAGE_ROWS = 50
#: Calls that are folded in one commit.
FOLD_BATCH = 2_000
FOLD = "SELECT usage_fold(%s)"
SUM_BY_KEY = """
SELECT key, sum(calls)::bigint, sum(input_tokens)::bigint, sum(output_tokens)::bigint,
       sum(cached_tokens)::bigint, sum(cost)
  FROM usage_between(%s, %s, %s, %s) GROUP BY key HAVING sum(calls) > 0
 ORDER BY 6 DESC, 2 DESC, key DESC LIMIT %s OFFSET %s
"""
#: Sessions whose sums are looked at for each row that is wanted.
SESSIONS_PER_ROW = 2
TOP_SESSIONS = "SELECT * FROM usage_of_sessions(%s, %s, %s, %s) LIMIT %s"
SUM_BY_DAY = """
SELECT day::text, sum(calls)::bigint, sum(input_tokens)::bigint, sum(output_tokens)::bigint,
       sum(cached_tokens)::bigint, sum(cost)
  FROM usage_between(%s, %s, %s, %s) GROUP BY day HAVING sum(calls) > 0
 ORDER BY day LIMIT %s OFFSET %s
"""


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


@dataclass(frozen=True, kw_only=True)
class UsageRow:
    """One group of a report."""

    key: str
    name: str
    calls: int
    input_tokens: int
    output_tokens: int
    #: The input tokens among them that providers read from their caches.
    cached_tokens: int
    cost: Decimal
    #: The cost of sandboxes, or None where it is not split by this grouping.
    sandbox_cost: Decimal | None = None

    @property
    def spent(self) -> Decimal:
        return self.cost + (self.sandbox_cost or 0)

    @property
    def cached_percent(self) -> int:
        return cached_percent(self.cached_tokens, self.input_tokens)


def cached_percent(cached: int, input_tokens: int) -> int:
    """Return the share of the input that providers read from their caches, in percent."""
    return 100 * cached // input_tokens if input_tokens else 0


def _day(text: str | None) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        raise Invalid(f"{text!r} is not a day like 2026-01-31.") from None


def fold_calls() -> int:
    """Add the calls that have ended to the sums of their days, and return their number."""
    folded = 0
    while (batch := prepared_rows(FOLD, [FOLD_BATCH])[0][0]) > 0:
        folded += batch
    return folded


def report(
    workspace_id: UUID,
    by: str,
    span: Span,
    *,
    names: OwnerNames | None = None,
    limit: int = MAX_ROWS,
    offset: int = 0,
) -> list[UsageRow]:
    """Sum up usage per group: the most expensive first, days in their order.

    `names` looks up what agents, sessions, members and keys are called. Days and members also have
    the cost of their sandboxes.
    """
    if by not in GROUPS:
        raise Invalid(f"Usage is grouped by one of {', '.join(GROUPS)}.")
    if by in SANDBOX_GROUPS:
        rows = _with_sandboxes(workspace_id, by, span, names)
        return rows[offset : offset + limit]
    return _of_calls(workspace_id, by, span, names, limit, offset)


def _with_sandboxes(
    workspace_id: UUID, by: str, span: Span, names: OwnerNames | None
) -> list[UsageRow]:
    """Return all days or members with the cost of their sandboxes, also those without a call."""
    charged = UsageRollup.objects.for_workspace(workspace_id).filter(
        dimension=Dimension.SANDBOX, day__range=(span.first, span.last)
    )
    sums = charged.order_by().values_list(SANDBOX_GROUPS[by]).annotate(taken=Sum("cost"))
    sandboxes = {str(key): taken for key, taken in sums}
    found = {row.key: row for row in _of_calls(workspace_id, by, span, None, MAX_ROWS, 0)}
    keys = [*found, *(key for key in sandboxes if key not in found)]
    ids = [UUID(key) for key in keys if key] if names and by == "member" else []
    named = names(workspace_id, by, ids) if names and ids else {}
    rows = [
        replace(
            found.get(key) or _row({}, key, 0, 0, 0, 0, Decimal(0)),
            name=(named.get(UUID(key)) if named and key else "") or key or "none",
            sandbox_cost=sandboxes.get(key, Decimal(0)),
        )
        for key in keys
    ]
    if by == "day":
        return sorted(rows, key=lambda row: row.key)
    return sorted(rows, key=lambda row: (row.spent, row.calls, row.key), reverse=True)


def _of_calls(
    workspace_id: UUID, by: str, span: Span, names: OwnerNames | None, limit: int, offset: int
) -> list[UsageRow]:
    found = _top_sessions(workspace_id, span, limit, offset) if by == "session" else None
    if found is None:
        sums = SUM_BY_DAY if by == "day" else SUM_BY_KEY
        params = [workspace_id, GROUPS[by], span.first, span.last, limit, offset]
        found = prepared_rows(sums, params)
    ids = [UUID(key) for key, *_ in found if key] if names and by not in {"day", "model"} else []
    named = names(workspace_id, by, ids) if names and ids else {}
    return [_row(named, *sums) for sums in found]


def _top_sessions(
    workspace_id: UUID, span: Span, limit: int, offset: int
) -> list[tuple[Any, ...]] | None:
    """Return the most expensive sessions, or None if only the sums of all sessions can tell."""
    wanted = offset + limit
    taken = wanted * SESSIONS_PER_ROW
    found = prepared_rows(TOP_SESSIONS, [workspace_id, span.first, span.last, taken, wanted])
    if not found:
        return None
    *_, is_certain, is_all = found[-1]
    is_known = is_all or (is_certain and len(found) == wanted)
    return [row[:-2] for row in found[offset:]] if is_known else None


@dataclass(frozen=True, kw_only=True)
class Page:
    """A part of a report. `after` is the number of rows up to its end, or None if it is the last."""

    rows: list[UsageRow]
    after: int | None


def report_page(
    workspace_id: UUID, by: str, span: Span, *, names: OwnerNames, skip: int, limit: int
) -> Page:
    """Return some rows of a report, or all days: these are few."""
    if by == "day":
        return Page(rows=report(workspace_id, by, span), after=None)
    # One row more than asked for shows whether there is another page.
    rows = report(workspace_id, by, span, names=names, limit=limit + 1, offset=skip)
    return Page(rows=rows[:limit], after=skip + limit if len(rows) > limit else None)


def _row(names: dict[UUID, str], key: str, calls: int, *sums: Any) -> UsageRow:
    input_tokens, output_tokens, cached_tokens, cost = sums
    return UsageRow(
        key=key,
        name=(names.get(UUID(key)) if names and key else "") or key or "none",
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached_tokens,
        cost=cost,
    )


def totals(days: Iterable[Day]) -> dict[str, Any]:
    """Sum up the usage of these days."""
    days = list(days)
    return {
        "calls": sum(day.calls for day in days),
        "input_tokens": sum(day.input_tokens for day in days),
        "output_tokens": sum(day.output_tokens for day in days),
        "cached_tokens": sum(day.cached_tokens for day in days),
        "cost": sum((day.cost for day in days), Decimal(0)),
        "sandbox_cost": sum((day.sandbox for day in days), Decimal(0)),
    }


def csv_text(by: str, lines: Iterable[UsageRow]) -> str:
    """Write a report as CSV. Names that begin like a formula are quoted for spreadsheets."""
    text = StringIO()
    writer = csv.writer(text)
    has_sandboxes = by in SANDBOX_GROUPS
    writer.writerow([by, *COLUMNS, *(["sandbox_cost"] if has_sandboxes else [])])
    for line in lines:
        name = f"'{line.name}" if line.name[:1] in "=+-@\t\r" else line.name
        # Otherwise a small amount would be written as a power of ten.
        costs = [f"{line.cost:f}", *([f"{line.sandbox_cost:f}"] if has_sandboxes else [])]
        tokens = [line.input_tokens, line.output_tokens, line.cached_tokens]
        writer.writerow([line.key, name, line.calls, *tokens, *costs])
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
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Decimal = Decimal(0)
    sandbox: Decimal = Decimal(0)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def spent(self) -> Decimal:
        return self.cost + self.sandbox


def daily(workspace_id: UUID, span: Span) -> list[Day]:
    """Return the usage of every day of the span, in two queries."""
    used = {line.key: line for line in report(workspace_id, "day", span)}
    dates = [span.first + timedelta(days=n) for n in range((span.last - span.first).days + 1)]
    return [_day_of(day, used.get(day.isoformat())) for day in dates]


def _day_of(day: date, line: UsageRow | None) -> Day:
    if line is None:
        return Day(date=day)
    return Day(
        date=day,
        calls=line.calls,
        input_tokens=line.input_tokens,
        output_tokens=line.output_tokens,
        cached_tokens=line.cached_tokens,
        cost=line.cost,
        sandbox=line.sandbox_cost or Decimal(0),
    )
