"""Reserves the worst case of a model call before it is made, and settles what it cost after."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
from django.db import connection

from config.faults import BudgetReached, OutOfCredits
from tenants.ids import uuid7
from tenants.models import ModelCall, Purse

RESERVE = "SELECT purse_reserve(%s, %s::uuid[], %s, %s::jsonb)"
SETTLE = "SELECT purse_settle(%s, %s, %s, %s, %s, %s)"
SHORT = "SELECT purse_short(%s, %s::uuid[], 0)"


@dataclass(frozen=True, kw_only=True)
class Spender:
    """For whom a call is made, and whose purses pay for it besides the workspace's."""

    workspace_id: UUID
    agent_id: UUID | None = None
    session_id: UUID | None = None
    #: The sessions above this one: a child spends what its parents have.
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
    """What became of a call."""

    outcome: str
    cost: Decimal = Decimal(0)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class PlannedCall:
    """A call that is about to be made."""

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
    """Set the worst case aside in every purse and write the call down, in one statement."""
    spender = call.spender
    _ask(RESERVE, [spender.workspace_id, spender.owners, call.worst_case, call.as_json()])


def settle(call_id: UUID, charge: Charge, *, by: str = SETTLE) -> bool:
    """Charge a call, once. False: it was settled before."""
    with connection.cursor() as cursor:
        cursor.execute(
            by,
            [
                call_id,
                charge.outcome,
                charge.cost,
                charge.input_tokens,
                charge.output_tokens,
                charge.cached_tokens,
            ],
        )
        return bool(cursor.fetchone()[0])


def check_purses(workspace_id: UUID, owners: Sequence[UUID]) -> None:
    """Raise when one of these purses has nothing left: nothing new is begun on it."""
    _ask(SHORT, [workspace_id, [workspace_id, *owners]])


def _ask(query: str, params: list[Any]) -> None:
    """Raise what the empty purse means that a function answered with, if any."""
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        if short := cursor.fetchone()[0]:
            raise _fault(json.loads(short))


def _fault(short: dict[str, Any]) -> OutOfCredits | BudgetReached:
    left = max(Decimal(str(short["ceiling"])) - Decimal(str(short["spent"])), Decimal(0))
    needed = Decimal(str(short["needed"]))
    if short["kind"] == Purse.Kind.WORKSPACE:
        return OutOfCredits(
            f"The workspace has {dollars(left)} of credits left{_for(needed)}. "
            "An owner can add credits."
        )
    of = "" if short["period"] == Purse.Period.EVER else f" for this {short['period']}"
    return BudgetReached(
        f"The budget of this {short['kind']} of {dollars(Decimal(str(short['ceiling'])))}{of} has "
        f"{dollars(left)} left{_for(needed)}. An admin can raise it; then the session goes on."
    )


def _for(needed: Decimal) -> str:
    return f"; the next call may need {dollars(needed)}" if needed else ""


def dollars(amount: Decimal) -> str:
    """$1.20, or as many digits as a small amount needs to be told from nothing."""
    if amount and abs(amount) < Decimal("0.01"):
        return f"${amount:.6f}".rstrip("0").rstrip(".")
    return f"${amount:,.2f}"
