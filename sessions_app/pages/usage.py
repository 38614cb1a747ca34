"""Analytics: what was spent, on which days, by whom and on what, and how tools fared."""

from __future__ import annotations

from collections.abc import Callable
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

from config.faults import Invalid
from sessions_app.analytics import ToolUse, tool_use_between
from sessions_app.pages.chart import MEASURES, chart_of, measure_for
from sessions_app.pages.chips import Chip
from tenants.access import authorise
from tenants.authentication import principal_of
from tenants.budgets import BUDGETED
from tenants.credits import balance_of
from tenants.daily import daily
from tenants.usage import Line, Span, report, totals

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
#: Where a line of a table leads.
LINKS: dict[str, Callable[[str], str]] = {
    "agent": lambda key: f"{reverse('sessions')}?agent={key}",
    "session": lambda key: reverse("chat_session", args=[key]),
    "member": lambda key: reverse("members"),
    "key": lambda key: reverse("keys"),
}
NOBODY = {
    "key": "No key: people in the browser",
    "member": "Nobody: agents and schedules by themselves",
    "session": "Outside sessions",
    "agent": "No agent",
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the address asks for."""

    span: Span
    by: str
    measure: str

    @classmethod
    def in_request(cls, request: HttpRequest) -> Asked:
        asked = request.GET
        try:
            span = Span.read(asked.get("from"), asked.get("to"))
        except Invalid:
            span = Span.read(None, None)
        by = asked.get("by", "agent")
        return cls(
            span=span,
            by=by if by in TABS else "agent",
            measure=asked.get("show", ""),
        )

    def url(self, **changed: str | date) -> str:
        facts = {
            "from": self.span.first,
            "to": self.span.last,
            "by": self.by,
            "show": self.measure,
            **changed,
        }
        return f"?{urlencode({name: value for name, value in facts.items() if value})}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of a report, as the table shows it."""

    line: Line
    name: str
    url: str
    #: Of all that was spent, or else of all calls, in percent.
    share: int


@require_safe
def usage(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    asked = Asked.in_request(request)
    days = daily(workspace_id, asked.span)
    balance, whole = balance_of(workspace_id), totals(workspace_id, asked.span)
    spent = whole["cost"] + whole["sandbox_cost"]
    per_day = spent / len(days)
    measure = measure_for(days, asked.measure)
    lines, tools = lines_and_tools(workspace_id, asked)
    context = {
        "balance": balance,
        "is_low": balance.balance <= settings.LOW_CREDITS,
        "totals": whole,
        "spent": spent,
        "days_left": int(balance.available / per_day) if per_day else None,
        "chart": chart_of(days, measure) if whole["calls"] or spent else None,
        "asked": asked,
        "rows": rows_of(asked.by, lines, whole["cost"]),
        "tools": tools,
        "tabs": tab_chips(asked),
        "ranges": range_chips(asked),
        "measures": measure_chips(asked, measure),
        "csv": csv_url(asked),
        "budgeted": asked.by in BUDGETED and principal.may("admin"),
        "may_own": principal.may("own"),
    }
    return render(request, "pages/usage/usage.html", context)


def lines_and_tools(workspace_id: UUID, asked: Asked) -> tuple[list[Line], list[ToolUse]]:
    """Only the table that is shown is read."""
    if asked.by == "tool":
        return [], tool_use_between(workspace_id, *asked.span.moments)
    return report(workspace_id, asked.by, asked.span), []


def rows_of(by: str, lines: list[Line], cost: Decimal) -> list[Row]:
    calls = sum(line.calls for line in lines) or 1
    link = LINKS.get(by)
    return [
        Row(
            line=line,
            name=line.name if line.key else NOBODY.get(by, "none"),
            url=link(line.key) if link and line.key and line.name != line.key else "",
            share=round(100 * line.cost / cost) if cost else round(100 * line.calls / calls),
        )
        for line in (reversed(lines) if by == "day" else lines)
    ]


def csv_url(asked: Asked) -> str:
    if asked.by == "tool":
        return ""
    facts = {"by": asked.by, "from": asked.span.first, "to": asked.span.last, "as": "csv"}
    return f"{reverse('api-usage')}?{urlencode(facts)}"


def tab_chips(asked: Asked) -> list[Chip]:
    return [
        Chip(name=name, url=f"{asked.url(by=by)}#by", is_on=by == asked.by)
        for by, name in TABS.items()
    ]


def range_chips(asked: Asked) -> list[Chip]:
    today = datetime.now(tz=UTC).date()
    month = today.replace(day=1)
    spans = [(today - timedelta(days=count - 1), name) for count, name in RANGES.items()]
    return [
        Chip(
            name=name,
            url=asked.url(**{"from": first, "to": today}),
            is_on=(asked.span.first, asked.span.last) == (first, today),
        )
        for first, name in [*spans, (month, "This month")]
    ]


def measure_chips(asked: Asked, measure: str) -> list[Chip]:
    return [
        Chip(name=words, url=asked.url(show=name), is_on=name == measure)
        for name, words in MEASURES.items()
    ]
