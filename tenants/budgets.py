"""Budgets: how much an agent, a session, a person or a key may spend."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

from config.faults import Invalid, NotFound
from tenants.models import OwnedQuerySet, Purse, User
from tenants.usage import namers

BUDGETED = (Purse.Kind.AGENT, Purse.Kind.SESSION, Purse.Kind.MEMBER, Purse.Kind.KEY)


def budgets(workspace_id: UUID | None) -> OwnedQuerySet:
    """All budgets of a workspace; its own purse is its credits."""
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
    """Bound what this owner spends, from now on. What was spent before counts in a raised budget."""
    if kind not in BUDGETED:
        raise Invalid(f"A budget is for one of {', '.join(BUDGETED)}.")
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


def name_owner(workspace_id: UUID, kind: str, owner_id: UUID) -> str:
    """What the owner of a budget is called. Raises when the workspace has no such thing."""
    namer = namers.get(kind)
    named = namer(workspace_id, [owner_id]) if namer else {}
    if owner_id not in named:
        raise NotFound(f"This workspace has no {kind} {owner_id}.")
    return named[owner_id]


def name_owners(workspace_id: UUID, purses: Iterable[Purse]) -> dict[UUID, str]:
    """What the owners of these budgets are called: one query per kind. The deleted have no name."""
    ids: dict[str, list[UUID]] = {}
    for purse in purses:
        ids.setdefault(purse.kind, []).append(purse.owner_id)
    names: dict[UUID, str] = {}
    for kind, owners in ids.items():
        if namer := namers.get(kind):
            names |= namer(workspace_id, owners)
    return names


def spent_now(purse: Purse, today: date | None = None) -> Decimal:
    """What counts as spent: a budget of a day or a month begins anew with each, by UTC."""
    today = today or datetime.now(tz=UTC).date()
    begins = {Purse.Period.DAY: today, Purse.Period.MONTH: today.replace(day=1)}
    return purse.spent if purse.since == begins.get(Purse.Period(purse.period)) else Decimal(0)
