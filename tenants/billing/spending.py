"""Reserves the worst case of a model call and settles its cost; charges the minutes of sandboxes.

A call is settled once and a minute of a sandbox is charged once, however many processes try.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection
from django.db.models import Max
from django.utils import timezone

from core.db import prepared_rows
from core.ids import uuid7
from tenants.exceptions import BudgetReached, DatabaseQuotaReached, OutOfCredits
from tenants.models import ModelCall, Purse, SandboxMinute

RESERVE = "SELECT purse_reserve(%s, %s::uuid[], %s::numeric, %s::jsonb)"
SETTLE = "SELECT purse_settle(%s, %s, %s::numeric, %s::bigint, %s::bigint, %s::bigint)"
SHORT = "SELECT purse_short(%s, %s::uuid[], 0)"
CHARGE_MINUTES = "SELECT sandbox_charge(%s, %s::uuid[], %s, %s, %s, %s, %s, %s, %s)"
THIS_MINUTE = "SELECT date_trunc('minute', clock_timestamp())"
MINUTE = timedelta(minutes=1)
#: Minutes that were not counted for longer than this are not charged any more.
LONGEST_GAP = timedelta(days=1)
MINUTES_KEPT = timedelta(days=3)


@dataclass(frozen=True, kw_only=True)
class Spender:
    """The owners whose purses pay for a call, beside the purse of the workspace."""

    workspace_id: UUID
    agent_id: UUID | None = None
    session_id: UUID | None = None
    #: The parents of the session: a child also spends from their budgets.
    ancestors: tuple[UUID, ...] = ()
    run_id: UUID | None = None
    user_id: UUID | None = None
    key_id: UUID | None = None
    epoch: int | None = None

    @property
    def owners(self) -> list[UUID]:
        named = (self.agent_id, self.session_id, *self.ancestors, self.user_id, self.key_id)
        return [self.workspace_id, *(owner for owner in named if owner)]


@dataclass(frozen=True, kw_only=True)
class Charge:
    """The outcome of a call and its cost."""

    call_id: UUID
    outcome: str
    cost: Decimal = Decimal(0)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def as_params(self) -> list[Any]:
        """Return the arguments of `purse_settle` and of the functions that call it."""
        return [
            self.call_id,
            self.outcome,
            self.cost,
            self.input_tokens,
            self.output_tokens,
            self.cached_tokens,
        ]


@dataclass(frozen=True, kw_only=True)
class PlannedCall:
    """A model call that has not been made yet."""

    spender: Spender
    provider: str
    model: str
    worst_case: Decimal
    purpose: str = ModelCall.Purpose.ANSWER
    id: UUID = field(default_factory=uuid7)

    def as_json(self) -> str:
        spender = self.spender
        facts: dict[str, Any] = {
            "id": self.id,
            "agent_id": spender.agent_id,
            "session_id": spender.session_id,
            "run_id": spender.run_id,
            "user_id": spender.user_id,
            "key_id": spender.key_id,
            "epoch": spender.epoch,
            "provider": self.provider,
            "model": self.model,
            "purpose": self.purpose,
        }
        return orjson.dumps(facts).decode()


def reserve(call: PlannedCall) -> None:
    """Reserve the worst case in every purse and record the call, in one statement.

    Raise OutOfCredits or BudgetReached when one of the purses is too empty, or DatabaseQuotaReached.
    """
    spender = call.spender
    _raise_if_short(
        RESERVE, [spender.workspace_id, spender.owners, call.worst_case, call.as_json()]
    )


def settle(charge: Charge, *, by: str = SETTLE) -> bool:
    """Charge a call. Return False when it was already settled."""
    [(settled,)] = prepared_rows(by, charge.as_params())
    return bool(settled)


def check_purses(workspace_id: UUID, owners: Sequence[UUID]) -> None:
    """Raise OutOfCredits or BudgetReached when one of these purses is empty.

    Raise DatabaseQuotaReached when the workspace stores as much as it may.
    """
    _raise_if_short(SHORT, [workspace_id, [workspace_id, *owners]])


def _raise_if_short(query: str, params: list[Any]) -> None:
    """Run a function that returns the first purse that is too empty, and raise if there is one."""
    [(short,)] = prepared_rows(query, params)
    if short:
        raise _shortage(json.loads(short) if isinstance(short, str) else short)


def _shortage(short: dict[str, Any]) -> OutOfCredits | BudgetReached:
    if short["kind"] == "storage":
        return DatabaseQuotaReached()
    left = max(Decimal(str(short["ceiling"])) - Decimal(str(short["spent"])), Decimal(0))
    needed = Decimal(str(short["needed"]))
    if short["kind"] == Purse.Kind.WORKSPACE:
        return OutOfCredits(
            f"The workspace has {dollars(left)} of credits left{_needed(needed)}. "
            "The operator of this installation can add credits."
        )
    of = "" if short["period"] == Purse.Period.EVER else f" for this {short['period']}"
    return BudgetReached(
        f"The budget of this {short['kind']} of {dollars(Decimal(str(short['ceiling'])))}{of} has "
        f"{dollars(left)} left{_needed(needed)}. An admin can raise it; then the session goes on."
    )


def _needed(needed: Decimal) -> str:
    return f"; the next call may need {dollars(needed)}" if needed else ""


def dollars(amount: Decimal) -> str:
    """Format an amount as $1.20, with more digits for amounts below one cent."""
    if amount and abs(amount) < Decimal("0.01"):
        return f"${amount:.6f}".rstrip("0").rstrip(".")
    return f"${amount:,.2f}"


# ── Sandbox minutes ──────────────────────────────────────────────────────────


def charge_minutes(
    workspace_id: UUID,
    sandbox: str,
    *,
    first: datetime,
    count: int,
    note: str,
    owners: Sequence[UUID] = (),
    member_id: UUID | None = None,
) -> int:
    """Charge those of these minutes that were not charged before, and return their number.

    The purse of the workspace and those of the given owners pay. The ledger names the member.
    """
    price = settings.SANDBOX_MINUTE_PRICE
    if price <= 0 or count <= 0:
        return 0
    with connection.cursor() as cursor:
        paying = [workspace_id, *owners]
        cursor.execute(
            CHARGE_MINUTES,
            [
                *(workspace_id, paying, sandbox[:100], first, count),
                *(price, note[:200], uuid7(), member_id),
            ],
        )
        return int(cursor.fetchone()[0])


def this_minute() -> datetime:
    """Return the current minute by the clock of the database, which all nodes share."""
    with connection.cursor() as cursor:
        cursor.execute(THIS_MINUTE)
        return cursor.fetchone()[0]


def last_charged(sandboxes: Iterable[str]) -> dict[str, datetime]:
    """Return the newest minute of each sandbox that is already charged."""
    rows = SandboxMinute.objects.filter(sandbox__in=list(sandboxes)).order_by()
    return dict(rows.values_list("sandbox").annotate(newest=Max("minute")))


def uncharged(newest: datetime | None, now: datetime) -> tuple[datetime, int]:
    """Return the first minute that a running sandbox owes, and the number of minutes since."""
    first = max(newest + MINUTE, now - LONGEST_GAP) if newest else now
    return first, int((now - first) / MINUTE) + 1


def delete_old_minutes() -> int:
    """Delete minutes that are too old to be charged again, and return their number."""
    return SandboxMinute.objects.filter(minute__lt=timezone.now() - MINUTES_KEPT).delete()[0]
