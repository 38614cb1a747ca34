"""The analytics page: spending and tokens over time, by owner and model, and tool statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from core.exceptions import Invalid
from sessions_app.ledger import ToolUse, tool_use_between
from sessions_app.pages.filters import Chip
from tenants.access import authorise
from tenants.api.billing import owner_names
from tenants.authentication import principal_of
from tenants.billing.credits import BUDGET_KINDS, get_balance
from tenants.billing.spending import dollars
from tenants.billing.usage import Day, Span, UsageRow, daily, report, totals
from tenants.templatetags.money import compact

#: Units of the SVG, which is scaled to the available space.
HEIGHT = 100.0
STEP = 10.0
GAP = 2.0
MEASURES = {"spend": "Spend", "tokens": "Tokens", "calls": "Calls"}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The bar of one day. `top` is the part for sandboxes, above the part for models."""

    day: date
    x: float
    y: float
    height: float
    top_y: float
    top: float
    words: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    measure: str
    bars: list[Bar]
    width: float
    #: The value of the highest bar.
    most: str
    words: str

    @property
    def bar_width(self) -> float:
        return STEP - GAP


def measure_for(days: Sequence[Day], requested: str) -> str:
    """Return the requested measure; by default spending, or tokens if nothing was spent."""
    if requested in MEASURES:
        return requested
    return "spend" if any(day.spent for day in days) or not any(d.calls for d in days) else "tokens"


def chart_of(days: Sequence[Day], measure: str) -> Chart:
    highest = max((_value(day, measure) for day in days), default=Decimal(0))
    scale = HEIGHT / float(highest) if highest else 0.0
    total = sum((_value(day, measure) for day in days), Decimal(0))
    first, last = days[0].date, days[-1].date
    return Chart(
        measure=measure,
        bars=[_bar(day, number, measure, scale) for number, day in enumerate(days)],
        width=len(days) * STEP,
        most=_format(highest, measure),
        words=f"{MEASURES[measure]} per day from {_day(first)} to {_day(last)}: "
        f"{_format(total, measure)} in total, {_format(highest, measure)} on the busiest day.",
    )


def _bar(day: Day, number: int, measure: str, scale: float) -> Bar:
    top = float(day.sandbox) * scale if measure == "spend" else 0.0
    height = float(_value(day, measure)) * scale - top
    words = f"{_day(day.date)}: {_format(_value(day, measure), measure)}"
    if measure == "spend" and day.sandbox:
        words += f", {dollars(day.sandbox)} of it for sandboxes"
    return Bar(
        day=day.date,
        x=round(number * STEP + GAP / 2, 2),
        y=round(HEIGHT - height, 2),
        height=round(height, 2),
        top_y=round(HEIGHT - height - top, 2),
        top=round(top, 2),
        words=words,
    )


def _value(day: Day, measure: str) -> Decimal:
    match measure:
        case "tokens":
            return Decimal(day.tokens)
        case "calls":
            return Decimal(day.calls)
        case _:
            return day.spent


def _format(value: Decimal, measure: str) -> str:
    return dollars(value) if measure == "spend" else f"{compact(int(value))} {measure}"


def _day(day: date) -> str:
    return f"{day:%-d %b}"


TABS = {
    "agent": "Agents",
    "model": "Models",
    "member": "Members",
    "key": "API keys",
    "session": "Sessions",
    "day": "Days",
    "tool": "Tools",
}
RANGES = {7: "7 days", 30: "30 days", 90: "90 days", 365: "A year"}
#: The page that a row of a table links to.
LINKS: dict[str, Callable[[str], str]] = {
    "agent": lambda key: f"{reverse('sessions')}?agent={key}",
    "session": lambda key: reverse("chat_session", args=[key]),
    "member": lambda key: reverse("members"),
    "key": lambda key: reverse("keys"),
}
UNOWNED = {
    "key": "No key (browser)",
    "member": "No member (agents and schedules)",
    "session": "Outside sessions",
    "agent": "No agent",
}


@dataclass(frozen=True, kw_only=True)
class UsageQuery:
    """The query parameters of the page."""

    span: Span
    by: str
    measure: str

    @classmethod
    def from_request(cls, request: HttpRequest) -> UsageQuery:
        given = request.GET
        try:
            span = Span.parse(given.get("from"), given.get("to"))
        except Invalid:
            span = Span.parse(None, None)
        by = given.get("by", "agent")
        return cls(
            span=span,
            by=by if by in TABS else "agent",
            measure=given.get("show", ""),
        )

    def url(self, **changed: str | date) -> str:
        """Return the query string with these parameters changed."""
        parameters = {
            "from": self.span.first,
            "to": self.span.last,
            "by": self.by,
            "show": self.measure,
            **changed,
        }
        return f"?{urlencode({name: value for name, value in parameters.items() if value})}"


@dataclass(frozen=True, kw_only=True)
class UsageTableRow:
    """A row of the table."""

    line: UsageRow
    name: str
    url: str
    #: Percent of all spending, or of all calls if nothing was spent.
    share: int


@require_safe
def usage(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    query = UsageQuery.from_request(request)
    days = daily(workspace_id, query.span)
    balance, total = get_balance(workspace_id), totals(workspace_id, query.span)
    spent = total["cost"] + total["sandbox_cost"]
    per_day = spent / len(days)
    measure = measure_for(days, query.measure)
    lines, tools = lines_and_tools(workspace_id, query)
    context = {
        "balance": balance,
        "is_low": balance.balance <= settings.LOW_CREDITS,
        "totals": total,
        "spent": spent,
        "days_left": int(balance.available / per_day) if per_day else None,
        "chart": chart_of(days, measure) if total["calls"] or spent else None,
        "asked": query,
        "rows": rows_of(query.by, lines, total["cost"]),
        "tools": tools,
        "tabs": tab_chips(query),
        "ranges": range_chips(query),
        "measures": measure_chips(query, measure),
        "csv": csv_url(query),
        "budgeted": query.by in BUDGET_KINDS and principal.may("admin"),
        "may_own": principal.may("own"),
    }
    return render(request, "pages/usage/usage.html", context)


def lines_and_tools(workspace_id: UUID, query: UsageQuery) -> tuple[list[UsageRow], list[ToolUse]]:
    """Read the table that is shown: usage rows or tools."""
    if query.by == "tool":
        return [], tool_use_between(workspace_id, *query.span.moments)
    return report(workspace_id, query.by, query.span, names=owner_names), []


def rows_of(by: str, lines: list[UsageRow], cost: Decimal) -> list[UsageTableRow]:
    calls = sum(line.calls for line in lines) or 1
    link = LINKS.get(by)
    return [
        UsageTableRow(
            line=line,
            name=line.name if line.key else UNOWNED.get(by, "none"),
            url=link(line.key) if link and line.key and line.name != line.key else "",
            share=round(100 * line.cost / cost) if cost else round(100 * line.calls / calls),
        )
        for line in (reversed(lines) if by == "day" else lines)
    ]


def csv_url(query: UsageQuery) -> str:
    if query.by == "tool":
        return ""
    facts = {"by": query.by, "from": query.span.first, "to": query.span.last, "as": "csv"}
    return f"{reverse('api-usage')}?{urlencode(facts)}"


def tab_chips(query: UsageQuery) -> list[Chip]:
    return [
        Chip(name=name, url=f"{query.url(by=by)}#by", is_on=by == query.by)
        for by, name in TABS.items()
    ]


def range_chips(query: UsageQuery) -> list[Chip]:
    today = datetime.now(tz=UTC).date()
    month = today.replace(day=1)
    spans = [(today - timedelta(days=count - 1), name) for count, name in RANGES.items()]
    return [
        Chip(
            name=name,
            url=query.url(**{"from": first, "to": today}),
            is_on=(query.span.first, query.span.last) == (first, today),
        )
        for first, name in [*spans, (month, "This month")]
    ]


def measure_chips(query: UsageQuery, measure: str) -> list[Chip]:
    return [
        Chip(name=words, url=query.url(show=name), is_on=name == measure)
        for name, words in MEASURES.items()
    ]
