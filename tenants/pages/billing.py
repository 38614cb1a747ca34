"""Pages of usage, credits, budgets and the workspace's own prices of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.model_catalog import drop_price, set_price
from agents.models import Agent
from agents.providers.registry import PROVIDERS
from core.exceptions import Invalid
from core.ids import uuid7
from sessions_app.ledger import ToolUse, tool_use_between
from sessions_app.pages.filters import Chip
from sessions_app.pages.schedules import sessions_to_choose
from tenants.access import Principal, authorise, authorise_staff
from tenants.api.billing import name_owner, owner_names
from tenants.authentication import authorised, principal_of
from tenants.billing.credits import (
    BUDGET_KINDS,
    MAX_AMOUNT,
    add_credits,
    current_spend,
    get_balance,
    list_budgets,
    set_budget,
)
from tenants.billing.spending import dollars
from tenants.billing.usage import (
    PAGE_ROWS,
    SANDBOX_GROUPS,
    Day,
    Page,
    Span,
    UsageRow,
    cached_percent,
    daily,
    report_page,
    totals,
)
from tenants.models import ApiKey, CreditEntry, Membership, Price, Purse
from tenants.templatetags.money import compact

# ── Analytics ────────────────────────────────────────────────────────────────

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


def parse_page(text: str) -> int:
    """Return the number of a page, or 1 if the text is none."""
    is_number = text.isascii() and text.isdigit() and len(text) < 6
    return max(int(text), 1) if is_number else 1


@dataclass(frozen=True, kw_only=True)
class UsageQuery:
    """The query parameters of the page."""

    span: Span
    by: str
    measure: str
    page: int

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
            page=parse_page(given.get("page", "")),
        )

    def url(self, **changed: str | date | int) -> str:
        """Return the query string with these parameters changed, of the first page."""
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
    principal, workspace_id = authorised(request, "read")
    query = UsageQuery.from_request(request)
    days = daily(workspace_id, query.span)
    balance, total = get_balance(workspace_id), totals(days)
    spent = total["cost"] + total["sandbox_cost"]
    per_day = spent / len(days)
    measure = measure_for(days, query.measure)
    found, tools = lines_and_tools(workspace_id, query)
    context = {
        "balance": balance,
        "totals": total,
        "cached_percent": cached_percent(total["cached_tokens"], total["input_tokens"]),
        "spent": spent,
        "days_left": int(balance.available / per_day) if per_day else None,
        "chart": chart_of(days, measure) if total["calls"] or spent else None,
        "asked": query,
        "rows": rows_of(query.by, found.rows, total),
        "next": query.url(page=query.page + 1) if found.after else "",
        "has_sandboxes": query.by in SANDBOX_GROUPS and total["sandbox_cost"],
        "tools": tools,
        "tabs": tab_chips(query),
        "ranges": range_chips(query),
        "measures": measure_chips(query, measure),
        "csv": csv_url(query),
        "budgeted": query.by in BUDGET_KINDS and principal.may("admin"),
        "may_grant": may_grant(principal),
    }
    return render(request, "pages/usage/usage.html", context)


def may_grant(principal: Principal) -> bool:
    """Return whether this person may add credits: an owner who is staff."""
    return principal.may("own") and principal.is_staff


def lines_and_tools(workspace_id: UUID, query: UsageQuery) -> tuple[Page, list[ToolUse]]:
    """Read the table that is shown: usage rows or tools."""
    span = query.span
    if query.by == "tool":
        return Page(rows=[], after=None), tool_use_between(workspace_id, span.first, span.last)
    skip = (query.page - 1) * PAGE_ROWS
    found = report_page(workspace_id, query.by, span, names=owner_names, skip=skip, limit=PAGE_ROWS)
    return found, []


def rows_of(by: str, lines: list[UsageRow], total: dict[str, Any]) -> list[UsageTableRow]:
    cost, calls, link = total["cost"], total["calls"], LINKS.get(by)
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


# ── Credits, budgets and prices ────────────────────────────────────────────────

Group = tuple[str, Sequence[tuple[str, str]]]
PERIODS = [
    (Purse.Period.EVER, "In total"),
    (Purse.Period.DAY, "Each day"),
    (Purse.Period.MONTH, "Each month"),
]


class Dollars(forms.DecimalField):
    def __init__(self, *, label: str, least: Decimal | int | None = 0, places: int = 2) -> None:
        # Not a number input, which would round and step through amounts.
        super().__init__(
            label=label,
            max_digits=18,
            decimal_places=max(places, 6),
            min_value=least,
            max_value=MAX_AMOUNT,
            widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
        )


class CreditForm(forms.Form):
    """Adds an entry to the ledger. `once` makes a second click harmless."""

    amount = Dollars(label="Dollars", least=None)
    kind = forms.ChoiceField(
        label="As",
        choices=[
            ("grant", "Grant: adds credits"),
            ("adjustment", "Adjustment: adds or takes credits"),
        ],
    )
    note = forms.CharField(label="Note", max_length=200, required=False)
    once = forms.UUIDField(widget=forms.HiddenInput)


class BudgetForm(forms.Form):
    owner = forms.ChoiceField(label="For")
    ceiling = Dollars(label="Dollars")
    period = forms.ChoiceField(label="Counts", choices=PERIODS)

    def __init__(self, *args: object, choices: Sequence[Group], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.fields["owner"].choices = choices  # type: ignore[attr-defined]

    def clean_owner(self) -> tuple[str, UUID]:
        kind, _, owner = self.cleaned_data["owner"].partition(":")
        return kind, UUID(owner)


class LimitForm(forms.Form):
    """Raises or lowers an existing budget."""

    ceiling = Dollars(label="Dollars")
    period = forms.ChoiceField(label="Counts", choices=PERIODS)


class PriceForm(forms.Form):
    provider = forms.ChoiceField(
        label="Provider", choices=[(name, info.label) for name, info in PROVIDERS.items()]
    )
    model = forms.CharField(
        label="Model",
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    input_price = Dollars(label="Per million input tokens")
    output_price = Dollars(label="Per million output tokens")


def owner_choices(workspace_id: UUID, chosen: str = "") -> list[Group]:
    """Return everything that can have a budget: the newest sessions and the chosen one."""
    agents = Agent.objects.for_workspace(workspace_id).active().known().select_related("current")
    people = Membership.objects.for_workspace(workspace_id).select_related("user")
    groups = [
        ("Agents", [(f"agent:{agent.pk}", str(agent)) for agent in agents.order_by("created_at")]),
        ("Members", [(f"member:{each.user_id}", each.user.display_name) for each in people]),
        (
            "API keys",
            [
                (f"key:{key.pk}", key.name)
                for key in ApiKey.objects.for_workspace(workspace_id).valid().order_by("name")
            ],
        ),
        (
            "Sessions",
            [
                (f"session:{session.pk}", session.title or "New chat")
                for session in sessions_to_choose(workspace_id, chosen)
            ],
        ),
    ]
    return [("", [("", "Choose…")]), *(group for group in groups if group[1])]


LEDGER_PREVIEW = 15
LEDGER_PAGE = 50
MAX_ROWS = 200


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A row of the budgets page."""

    purse: Purse
    name: str
    spent: Decimal
    form: LimitForm

    @property
    def share(self) -> int:
        ceiling = self.purse.ceiling
        return min(100, round(100 * self.spent / ceiling)) if ceiling else 100

    @property
    def lamp(self) -> str:
        if self.spent >= self.purse.ceiling:
            return "is-failed"
        return "is-waiting" if self.share >= 80 else ""


@require_safe
def budgets(request: HttpRequest) -> HttpResponse:
    return budgets_page(request)


def budgets_page(request: HttpRequest, *, wrong: Form | None = None) -> HttpResponse:
    """Render the page, with the form that was refused if there is one."""
    principal, workspace_id = authorised(request, "read")
    balance = get_balance(workspace_id)
    ledger = CreditEntry.objects.for_workspace(workspace_id).select_related("created_by", "call")
    context = {
        "balance": balance,
        "ledger": ledger[:LEDGER_PREVIEW],
        "budgets": budget_rows(workspace_id),
        "prices": Price.objects.for_workspace(workspace_id)[:MAX_ROWS],
        "may_admin": principal.may("admin"),
        "may_grant": may_grant(principal),
        **forms_for(request, principal, workspace_id, wrong),
    }
    return render(request, "pages/usage/budgets.html", context, status=400 if wrong else 200)


def forms_for(
    request: HttpRequest, principal: Principal, workspace_id: UUID, wrong: Form | None
) -> dict[str, Form]:
    """Return the forms that this user may submit."""
    allowed: dict[str, Form] = {}
    if may_grant(principal):
        allowed["credit_form"] = CreditForm(initial={"once": uuid7()})
    if principal.may("admin"):
        chosen = request.GET.get("for", "")
        allowed["budget_form"] = BudgetForm(
            choices=owner_choices(workspace_id, chosen), initial={"owner": chosen}
        )
        allowed["price_form"] = PriceForm(auto_id="price_%s")
    names = {CreditForm: "credit_form", BudgetForm: "budget_form", PriceForm: "price_form"}
    return {**allowed, names[type(wrong)]: wrong} if type(wrong) in names and wrong else allowed


def budget_rows(workspace_id: UUID) -> list[Budget]:
    purses = list(list_budgets(workspace_id)[:MAX_ROWS])
    names: dict[UUID, str] = {}
    for kind in {purse.kind for purse in purses}:
        ids = [purse.owner_id for purse in purses if purse.kind == kind]
        names |= owner_names(workspace_id, kind, ids)
    return [
        Budget(
            purse=purse,
            name=names.get(purse.owner_id, "Deleted"),
            spent=current_spend(purse),
            form=LimitForm(
                auto_id=f"{purse.pk}_%s",
                initial={"ceiling": f"{purse.ceiling:.2f}", "period": purse.period},
            ),
        )
        for purse in purses
    ]


@require_http_methods(["GET", "HEAD"])
def ledger(request: HttpRequest) -> HttpResponse:
    """Show one page of the ledger."""
    workspace_id = authorise(principal_of(request), "read")
    rows = CreditEntry.objects.for_workspace(workspace_id).select_related("created_by", "call")
    kind = request.GET.get("kind", "")
    if kind in CreditEntry.Kind.values:
        rows = rows.filter(kind=kind)
    asked = request.GET.get("page", "1")
    number = int(asked) if asked.isascii() and asked.isdigit() and 0 < len(asked) < 6 else 1
    start = max(0, number - 1) * LEDGER_PAGE
    entries = list(rows[start : start + LEDGER_PAGE + 1])
    kinds = [("", "All"), *((kind, name) for kind, name in CreditEntry.Kind.choices)]
    context = {
        "ledger": entries[:LEDGER_PAGE],
        "kind": kind,
        "kinds": kinds,
        "newer": number - 1,
        "older": number + 1 if len(entries) > LEDGER_PAGE else 0,
    }
    return render(request, "pages/usage/ledger.html", context)


@require_POST
def credits_add(request: HttpRequest) -> HttpResponse:
    """Grant or adjust credits, once per form."""
    principal = principal_of(request)
    workspace_id = authorise_staff(principal)
    form = CreditForm(request.POST)
    if not form.is_valid():
        return budgets_page(request, wrong=form)
    given: dict[str, Any] = dict(form.cleaned_data)
    try:
        entry = add_credits(
            workspace_id, author=principal.user, entry_id=given.pop("once"), **given
        )
    except Invalid as fault:
        form.add_error("amount", fault.detail)
        return budgets_page(request, wrong=form)
    change = "added to" if entry.amount > 0 else "taken from"
    messages.success(request, f"{dollars(abs(entry.amount))} {change} the credits.")
    return redirect("budgets")


@require_POST
def budget_set(request: HttpRequest) -> HttpResponse:
    principal, workspace_id = authorised(request, "admin")
    sent = request.POST.get("owner", "")
    form = BudgetForm(request.POST, choices=owner_choices(workspace_id, sent))
    if not form.is_valid():
        return budgets_page(request, wrong=form)
    kind, owner_id = form.cleaned_data["owner"]
    name = name_owner(workspace_id, kind, owner_id)
    purse = set_budget(
        workspace_id=workspace_id,
        kind=kind,
        owner_id=owner_id,
        ceiling=form.cleaned_data["ceiling"],
        period=form.cleaned_data["period"],
        author=principal.user,
    )
    messages.success(request, f"{name} may spend {dollars(purse.ceiling)}{per(purse)}.")
    return redirect("budgets")


@require_POST
def budget_change(request: HttpRequest, budget_id: UUID) -> HttpResponse:
    purse = get_budget(request, budget_id)
    form = LimitForm(request.POST)
    if not form.is_valid():
        messages.error(request, "The budget was not changed. Enter an amount of 0 dollars or more.")
        return redirect("budgets")
    changed = set_budget(
        workspace_id=purse.workspace_id,
        kind=purse.kind,
        owner_id=purse.owner_id,
        **form.cleaned_data,
    )
    messages.success(request, f"The budget is now {dollars(changed.ceiling)}{per(changed)}.")
    return redirect("budgets")


@require_POST
def budget_remove(request: HttpRequest, budget_id: UUID) -> HttpResponse:
    get_budget(request, budget_id).delete()
    messages.success(request, "Budget removed. Only the workspace's credits limit spending now.")
    return redirect("budgets")


@require_POST
def price_set(request: HttpRequest) -> HttpResponse:
    principal, workspace_id = authorised(request, "admin")
    form = PriceForm(request.POST, auto_id="price_%s")
    if not form.is_valid():
        return budgets_page(request, wrong=form)
    price = set_price(workspace_id, author=principal.user, **form.cleaned_data)
    messages.success(request, f"Price of {price.model} saved. It applies from the next call.")
    return redirect("budgets")


@require_POST
def price_remove(request: HttpRequest, price_id: UUID) -> HttpResponse:
    workspace_id = authorise(principal_of(request), "admin")
    price = Price.objects.for_workspace(workspace_id).find(pk=price_id)
    drop_price(price)
    messages.success(request, f"{price.model} has its list price again.")
    return redirect("budgets")


def get_budget(request: HttpRequest, budget_id: UUID) -> Purse:
    """Return the budget if the user may change it, or raise NotFound or Forbidden."""
    return list_budgets(authorise(principal_of(request), "admin")).find(pk=budget_id)


def per(purse: Purse) -> str:
    return "" if purse.period == Purse.Period.EVER else f" each {purse.period}"
