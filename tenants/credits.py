"""The credits of a workspace: granted, adjusted, counted, and a notice when few are left."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from config.faults import Invalid, NotFound
from tenants.ids import uuid7
from tenants.models import CreditEntry, Purse, User, Workspace

ADD = "SELECT credit_add(%s, %s, %s, %s, %s, %s)"
MOST = Decimal(1_000_000)


@dataclass(frozen=True, kw_only=True)
class Balance:
    """What a workspace has, in US dollars."""

    balance: Decimal
    reserved: Decimal
    granted: Decimal
    spent: Decimal
    debt: Decimal

    @property
    def available(self) -> Decimal:
        """What the next call may reserve."""
        return max(self.balance - self.reserved, Decimal(0))


def balance_of(workspace_id: UUID) -> Balance:
    purse = Purse.objects.filter(
        workspace_id=workspace_id, kind=Purse.Kind.WORKSPACE, owner_id=workspace_id
    ).first() or Purse(ceiling=Decimal(0), spent=Decimal(0))
    return Balance(
        balance=purse.ceiling - purse.spent,
        reserved=purse.reserved,
        granted=purse.ceiling,
        spent=purse.spent,
        debt=purse.debt,
    )


def add_credits(
    workspace_id: UUID,
    amount: Decimal,
    *,
    kind: str,
    note: str = "",
    author: User | None = None,
    entry_id: UUID | None = None,
) -> CreditEntry:
    """Give credits to a workspace, or take some, as one line of the ledger.

    A line that has this id already is left as it is: whoever sends twice adds once.
    """
    if not amount or abs(amount) > MOST:
        raise Invalid(f"An amount is between -{MOST:,} and {MOST:,} dollars, and not 0.")
    if kind == CreditEntry.Kind.GRANT and amount < 0:
        raise Invalid("A grant adds credits. Use an adjustment to take some away.")
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
        return _written_before(workspace_id, entry_id)
    return CreditEntry.objects.get(pk=entry_id)


def _written_before(workspace_id: UUID, entry_id: UUID) -> CreditEntry:
    written = CreditEntry.objects.for_workspace(workspace_id).filter(pk=entry_id).first()
    if written is None:
        raise NotFound
    return written


def furnish(workspace: Workspace, owner: User | None) -> None:
    """The credits that every new workspace starts with."""
    if settings.STARTING_CREDITS > 0:
        add_credits(
            workspace.pk,
            settings.STARTING_CREDITS,
            kind=CreditEntry.Kind.GRANT,
            note="To begin with",
            author=owner,
        )


def take_low_purses() -> list[Purse]:
    """Purses of workspaces with little left, each once until credits are added."""
    low = Purse.objects.filter(
        kind=Purse.Kind.WORKSPACE,
        low_since=None,
        ceiling__lte=F("spent") + settings.LOW_CREDITS,
    )
    taken = []
    for purse in low.select_related("workspace")[:100]:
        if Purse.objects.filter(pk=purse.pk, low_since=None).update(low_since=Now()):
            taken.append(purse)
    return taken
