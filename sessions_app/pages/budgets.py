"""Credits and budgets: the ledger, what each may spend, and own prices of models."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.prices import drop_price, set_price
from config.faults import Invalid, NotFound
from sessions_app.pages.money_forms import (
    BudgetForm,
    CreditForm,
    LimitForm,
    PriceForm,
    owner_choices,
)
from tenants.access import Principal, Verb, authorise
from tenants.authentication import principal_of
from tenants.budgets import budgets as budgets_of
from tenants.budgets import name_owner, name_owners, set_budget, spent_now
from tenants.credits import add_credits, balance_of
from tenants.ids import uuid7
from tenants.models import CreditEntry, Price, Purse
from tenants.spending import dollars

LEDGER = 15
MOST_SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class Budget:
    """One budget, as the page shows it."""

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
    return page(request)


def page(request: HttpRequest, *, wrong: Form | None = None) -> HttpResponse:
    """The whole page; with a form as it was sent when something is wrong with it."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    balance = balance_of(workspace_id)
    ledger = CreditEntry.objects.for_workspace(workspace_id).select_related("created_by", "call")
    context = {
        "balance": balance,
        "is_low": balance.balance <= settings.LOW_CREDITS,
        "ledger": ledger[:LEDGER],
        "budgets": shown_budgets(workspace_id),
        "prices": Price.objects.for_workspace(workspace_id)[:MOST_SHOWN],
        "may_admin": principal.may("admin"),
        "may_own": principal.may("own"),
        **forms_for(request, principal, workspace_id, wrong),
    }
    return render(request, "pages/usage/budgets.html", context, status=400 if wrong else 200)


def forms_for(
    request: HttpRequest, principal: Principal, workspace_id: UUID, wrong: Form | None
) -> dict[str, Form]:
    """Only what this person may send is made."""
    found: dict[str, Form] = {}
    if principal.may("own"):
        found["credit_form"] = CreditForm(initial={"once": uuid7()})
    if principal.may("admin"):
        chosen = request.GET.get("for", "")
        found["budget_form"] = BudgetForm(
            choices=owner_choices(workspace_id, chosen), initial={"owner": chosen}
        )
        found["price_form"] = PriceForm(auto_id="price_%s")
    names = {CreditForm: "credit_form", BudgetForm: "budget_form", PriceForm: "price_form"}
    return {**found, names[type(wrong)]: wrong} if type(wrong) in names and wrong else found


def shown_budgets(workspace_id: UUID) -> list[Budget]:
    purses = list(budgets_of(workspace_id)[:MOST_SHOWN])
    names = name_owners(workspace_id, purses)
    return [
        Budget(
            purse=purse,
            name=names.get(purse.owner_id, "Deleted"),
            spent=spent_now(purse),
            form=LimitForm(
                auto_id=f"{purse.pk}_%s",
                initial={"ceiling": f"{purse.ceiling:.2f}", "period": purse.period},
            ),
        )
        for purse in purses
    ]


@require_http_methods(["GET", "HEAD"])
def ledger(request: HttpRequest) -> HttpResponse:
    """All lines of the ledger, a page at a time."""
    workspace_id = authorise(principal_of(request), "read")
    rows = CreditEntry.objects.for_workspace(workspace_id).select_related("created_by", "call")
    kind = request.GET.get("kind", "")
    if kind in CreditEntry.Kind.values:
        rows = rows.filter(kind=kind)
    asked = request.GET.get("page", "1")
    number = int(asked) if asked.isascii() and asked.isdigit() and 0 < len(asked) < 6 else 1
    start = max(0, number - 1) * 50
    found = list(rows[start : start + 51])
    kinds = [("", "All"), *((kind, name) for kind, name in CreditEntry.Kind.choices)]
    context = {
        "ledger": found[:50],
        "kind": kind,
        "kinds": kinds,
        "newer": number - 1,
        "older": number + 1 if len(found) > 50 else 0,
    }
    return render(request, "pages/usage/ledger.html", context)


@require_POST
def credits_add(request: HttpRequest) -> HttpResponse:
    """Grant or adjust, once per form."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "own")
    form = CreditForm(request.POST)
    if not form.is_valid():
        return page(request, wrong=form)
    given: dict[str, Any] = dict(form.cleaned_data)
    try:
        entry = add_credits(
            workspace_id, author=principal.user, entry_id=given.pop("once"), **given
        )
    except Invalid as fault:
        form.add_error("amount", fault.detail)
        return page(request, wrong=form)
    done = "added to" if entry.amount > 0 else "taken from"
    messages.success(request, f"{dollars(abs(entry.amount))} is {done} the credits.")
    return redirect("budgets")


@require_POST
def budget_set(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "admin")
    sent = request.POST.get("owner", "")
    form = BudgetForm(request.POST, choices=owner_choices(workspace_id, sent))
    if not form.is_valid():
        return page(request, wrong=form)
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
    purse = found(request, budget_id)
    form = LimitForm(request.POST)
    if not form.is_valid():
        messages.error(request, "A budget is an amount in dollars, at least 0. Nothing is changed.")
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
    found(request, budget_id).delete()
    messages.success(request, "The budget is gone. Only the workspace's credits bound it now.")
    return redirect("budgets")


@require_POST
def price_set(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "admin")
    form = PriceForm(request.POST, auto_id="price_%s")
    if not form.is_valid():
        return page(request, wrong=form)
    price = set_price(workspace_id, author=principal.user, **form.cleaned_data)
    messages.success(request, f"The price of {price.model} is set. It counts from the next call.")
    return redirect("budgets")


@require_POST
def price_remove(request: HttpRequest, price_id: UUID) -> HttpResponse:
    workspace_id = authorise(principal_of(request), "admin")
    price = Price.objects.for_workspace(workspace_id).filter(pk=price_id).first()
    if price is None:
        raise NotFound
    drop_price(price)
    messages.success(request, f"{price.model} costs what the price list says again.")
    return redirect("budgets")


def found(request: HttpRequest, budget_id: UUID, verb: Verb = "admin") -> Purse:
    workspace_id = authorise(principal_of(request), verb)
    purse = budgets_of(workspace_id).filter(pk=budget_id).first()
    if purse is None:
        raise NotFound
    return purse


def per(purse: Purse) -> str:
    return "" if purse.period == Purse.Period.EVER else f" each {purse.period}"
