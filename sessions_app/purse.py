"""Lets a run call a model only with money set aside for it, and charges what the call used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from agents.prices import price_call, worst_case
from agents.providers.base import ModelRequest, Usage
from agents.providers.estimate import estimate_request, estimate_tokens
from config.faults import ProviderFault
from sessions_app.row_by_row import for_each
from sessions_app.statements import patiently, rows
from sessions_app.turn import Turn
from tenants.models import ModelCall
from tenants.spending import Charge, PlannedCall, Spender, reserve, settle

State, Purpose = ModelCall.State, ModelCall.Purpose
#: A call whose holder lost its lane is given this long to settle by itself.
GRACE_SECONDS = 30.0
MARK_LOST = """
UPDATE model_calls c SET lost_at = clock_timestamp() FROM agent_sessions s
 WHERE c.state = 'reserved' AND c.lost_at IS NULL AND s.id = c.session_id
   AND (s.lane_epoch <> c.epoch OR s.lease_owner IS NULL)
"""
LOST = """
SELECT c.id, c.reserved FROM model_calls c
 WHERE c.state = 'reserved' AND c.lost_at < clock_timestamp() - make_interval(secs => %s)
"""
#: As `purse_settle`, and adds the call to what its session has used.
SETTLE = "SELECT session_settle(%s, %s, %s, %s, %s, %s)"


@dataclass(kw_only=True)
class Meter:
    """What a call has used so far."""

    provider: str
    request: ModelRequest
    text: str = ""
    usage: Usage | None = None
    cost: Decimal = Decimal(0)

    @property
    def counted(self) -> Usage:
        """As the provider counted, else a guess."""
        if self.usage and (self.usage.input_tokens or self.usage.output_tokens):
            return self.usage
        return Usage(
            input_tokens=estimate_request(self.request), output_tokens=estimate_tokens(self.text)
        )

    @property
    def used_anything(self) -> bool:
        return bool(self.text or (self.usage and self.usage.output_tokens))


@contextmanager
def paid_call(
    turn: Turn, provider: str, request: ModelRequest, purpose: str = Purpose.ANSWER
) -> Iterator[Meter]:
    """Reserve, let the caller read the answer, settle. A call that fails unanswered costs nothing.

    Who is killed in between is charged the whole reservation, by the supervisor.
    """
    call = PlannedCall(
        spender=spender_of(turn),
        provider=provider,
        model=request.model,
        worst_case=worst_case(turn.workspace_id, provider, request),
        purpose=purpose,
    )
    patiently(lambda again: _reserve(call, again))
    meter = Meter(provider=provider, request=request)
    outcome = State.ESTIMATED
    try:
        yield meter
        outcome = State.SETTLED
    except ProviderFault:
        outcome = State.ESTIMATED if meter.used_anything else State.FAILED
        raise
    finally:
        _settle(turn, call, meter, outcome)


def spender_of(turn: Turn) -> Spender:
    return Spender(
        workspace_id=turn.workspace_id,
        agent_id=turn.agent_id,
        session_id=turn.session_id,
        ancestors=turn.ancestors,
        run_id=turn.claim.run_id,
        user_id=turn.sender_id,
        key_id=turn.key_id,
        epoch=turn.claim.epoch,
    )


def _reserve(call: PlannedCall, again: bool) -> None:
    if again and ModelCall.objects.filter(pk=call.id).exists():
        return
    reserve(call)


def _settle(turn: Turn, call: PlannedCall, meter: Meter, outcome: str) -> None:
    charge = Charge(outcome=outcome)
    if outcome != State.FAILED:
        usage = meter.counted
        meter.usage = usage
        meter.cost = price_call(turn.workspace_id, call.provider, call.model, usage)
        charge = Charge(
            outcome=outcome,
            cost=meter.cost,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
        )
        count = turn.spent.add if call.purpose == Purpose.ANSWER else turn.spent.add_beside
        count(usage, meter.cost)
    patiently(lambda again: settle(call.id, charge, by=SETTLE))


def charge_lost_calls() -> int:
    """Charge the calls of killed workers their reservations. How many there were."""
    rows(MARK_LOST + " RETURNING c.id", [])
    # One commit each: who holds a purse must not wait for a session.
    return len(for_each(rows(LOST, [GRACE_SECONDS]), _charge_lost))


def _charge_lost(call: tuple[UUID, Decimal]) -> bool:
    call_id, reserved = call
    return settle(call_id, Charge(outcome=State.ESTIMATED, cost=reserved), by=SETTLE)
