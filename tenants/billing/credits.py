"""The credits of a workspace, and the budgets of its agents, sessions, members and keys.

Both are purses: the purse of a workspace holds its credits, every other purse is a budget. A new
workspace starts with STARTING_CREDITS, and its admins are warned when few credits are left.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from core.exceptions import Invalid
from core.ids import uuid7
from tenants.models import CreditEntry, OwnedQuerySet, Purse, User, Workspace

ADD = "SELECT credit_add(%s, %s, %s, %s, %s, %s)"
MAX_AMOUNT = Decimal(1_000_000)
BUDGET_KINDS = (Purse.Kind.AGENT, Purse.Kind.SESSION, Purse.Kind.MEMBER, Purse.Kind.KEY)


def get_balance(workspace_id: UUID) -> Purse:
    """Return the purse that holds the credits of a workspace."""
    purses = Purse.objects.for_workspace(workspace_id).filter(kind=Purse.Kind.WORKSPACE)
    return purses.first() or Purse(ceiling=Decimal(0), spent=Decimal(0))


def add_credits(
    workspace_id: UUID,
    amount: Decimal,
    *,
    kind: str,
    note: str = "",
    author: User | None = None,
    entry_id: UUID | None = None,
) -> CreditEntry:
    """Add credits to a workspace, or take some away, as one entry of the ledger.

    An entry with the same id is left as it is, so sending a request twice adds credits once.
    """
    check_amount(amount, kind=kind)
    entry_id = entry_id or uuid7()
    params: list[Any] = [
        workspace_id,
        kind,
        amount,
        note[:200],
        author.pk if author else None,
        entry_id,
    ]
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(ADD, params)
    except IntegrityError:
        pass  # the entry exists, perhaps in another workspace
    return CreditEntry.objects.for_workspace(workspace_id).find(pk=entry_id)


def check_amount(amount: Decimal, *, kind: str) -> None:
    """Raise Invalid unless an entry of this kind may have this amount."""
    if not amount or abs(amount) > MAX_AMOUNT:
        raise Invalid(
            f"An amount is between -{MAX_AMOUNT:,} and {MAX_AMOUNT:,} dollars, and not 0."
        )
    if kind == CreditEntry.Kind.GRANT and amount < 0:
        raise Invalid("A grant adds credits. Use an adjustment to take some away.")


def grant_starting_credits(workspace: Workspace, owner: User | None) -> None:
    if settings.STARTING_CREDITS > 0:
        add_credits(
            workspace.pk,
            settings.STARTING_CREDITS,
            kind=CreditEntry.Kind.GRANT,
            note="Starting credits",
            author=owner,
        )


def claim_low_purses() -> list[Purse]:
    """Return the purses of workspaces with few credits left, each once until credits are added."""
    low = Purse.objects.filter(
        kind=Purse.Kind.WORKSPACE,
        low_since=None,
        ceiling__lte=F("spent") + settings.LOW_CREDITS,
    )
    claimed = []
    for purse in low.select_related("workspace")[:100]:
        if Purse.objects.filter(pk=purse.pk, low_since=None).update(low_since=Now()):
            claimed.append(purse)
    return claimed


# ── Budgets ──────────────────────────────────────────────────────────────────


def list_budgets(workspace_id: UUID | None) -> OwnedQuerySet:
    """Return the budgets of a workspace: every purse except the one with its credits."""
    return Purse.objects.for_workspace(workspace_id).exclude(kind=Purse.Kind.WORKSPACE)


def set_budget(
    *,
    workspace_id: UUID,
    kind: str,
    owner_id: UUID,
    ceiling: Decimal,
    period: str = Purse.Period.EVER,
    author: User | None = None,
) -> Purse:
    """Create or change a budget. Raising a budget keeps what was already spent from it."""
    if kind not in BUDGET_KINDS:
        raise Invalid(f"A budget is for one of {', '.join(BUDGET_KINDS)}.")
    if period not in Purse.Period.values:
        raise Invalid(f"The period of a budget is one of {', '.join(Purse.Period.values)}.")
    if ceiling < 0:
        raise Invalid("A budget is at least 0 dollars.")
    purse, _ = Purse.objects.update_or_create(
        workspace_id=workspace_id,
        kind=kind,
        owner_id=owner_id,
        defaults={"ceiling": ceiling, "period": period, "low_since": None},
        create_defaults={"ceiling": ceiling, "period": period, "created_by": author},
    )
    return purse


def current_spend(purse: Purse, today: date | None = None) -> Decimal:
    """Return what was spent in the current period. Days and months begin at midnight UTC."""
    today = today or datetime.now(tz=UTC).date()
    begins = {Purse.Period.DAY: today, Purse.Period.MONTH: today.replace(day=1)}
    return purse.spent if purse.since == begins.get(Purse.Period(purse.period)) else Decimal(0)
