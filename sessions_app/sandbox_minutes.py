"""What sandboxes of sessions cost: containers and terminals while they run, commands by their time.

Nothing is counted while `SANDBOX_MINUTE_PRICE` is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import ceil
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from agents.environments import environment_or_default
from agents.models import Environment
from sessions_app.ledger import Outcome
from sessions_app.models import Session, ToolExecution
from sessions_app.purse import spender_of
from sessions_app.sandbox_purses import OutOfMoney, Payers, find_unpaid, payers_of
from sessions_app.turn import Turn
from tenants.sandbox_minutes import charge_minutes, last_charged, this_minute, uncharged
from tools_app.registry import Category
from tools_app.sandbox.container.claims import claiming_sessions
from tools_app.sandbox.container.lifecycle import ROLE, SESSION
from tools_app.sandbox.container.sweep import running
from tools_app.sandbox.leftovers import marked_sessions


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Something that runs now."""

    id: str
    session_id: UUID
    words: str
    #: Its id never comes to mean another, so that minutes which nobody saw are known to be its own.
    is_lasting: bool


#: Knows whose purses pay for each sandbox, whether it is a session's or something else's.
WhoPays = Callable[[Collection[UUID]], dict[UUID, Payers]]


@dataclass(frozen=True, kw_only=True)
class Charged:
    """How many minutes were charged, and which sessions have nothing left to pay the next with."""

    minutes: int = 0
    unpaid: dict[UUID, OutOfMoney] = field(default_factory=dict)


def charge_running(who_pays: WhoPays = payers_of) -> Charged:
    """Charge every container and terminal of this machine up to now, and say who cannot pay more.

    For every supervisor: what another one has charged is not charged again.
    """
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return Charged()
    found = [*_containers(), *_terminals()]
    payers = who_pays({one.session_id for one in found})
    before, now, charged = last_charged(one.id for one in found), this_minute(), 0
    for one in found:
        if paying := payers.get(one.session_id):
            first, count = uncharged(before.get(one.id), now) if one.is_lasting else (now, 1)
            charged += charge_minutes(
                paying.workspace_id,
                one.id,
                first=first,
                count=count,
                note=one.words,
                owners=paying.owners,
            )
    return Charged(minutes=charged, unpaid=find_unpaid(payers))


def charge_commands(turn: Turn, outcomes: Sequence[Outcome]) -> None:
    """Charge local commands that ended, per started minute. A container is charged while it runs.

    Called in the transaction that writes the results: no result without its charge, none twice.
    """
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return
    commands = [one.execution for one in outcomes if _is_command(turn, one)]
    if commands and _is_local(turn.workspace_id, turn.environment_id):
        for call in commands:
            _charge(call, spender_of(turn).owners)


def charge_command(call: ToolExecution, session: Session, others: Collection[UUID] = ()) -> None:
    """The same for one command that no run made: the session's purses pay, and those of others."""
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return
    if _is_local(session.workspace_id, session.environment_id):
        _charge(call, [*payers_of([session.pk])[session.pk].owners, *others])


def _charge(call: ToolExecution, owners: Sequence[UUID]) -> None:
    if call.started_at is None:
        return
    seconds = (timezone.now() - call.started_at).total_seconds()
    charge_minutes(
        call.workspace_id,
        f"call:{call.tool_use_id}",
        first=call.started_at,
        count=max(1, ceil(seconds / 60)),
        note=f"A command of session {call.session_id}",
        owners=owners,
    )


def _is_command(turn: Turn, outcome: Outcome) -> bool:
    tool = turn.policy.tools.get(outcome.execution.name)
    return tool is not None and tool.category == Category.EXEC


def _is_local(workspace_id: UUID, environment_id: UUID | None) -> bool:
    return environment_or_default(workspace_id, environment_id).kind == Environment.Kind.LOCAL


def _containers() -> list[Counted]:
    # A machine on which no container was ever made is not asked for an engine.
    boxes = running() if claiming_sessions() else []
    return [
        Counted(
            id=box["Id"],
            session_id=UUID(box["Labels"][SESSION]),
            words=f"A container ({box['Labels'][ROLE]}) of session {box['Labels'][SESSION]}",
            is_lasting=True,
        )
        for box in boxes
        if box.get("State") == "running"
    ]


def _terminals() -> list[Counted]:
    return [
        Counted(
            id=f"terminal:{session_id}",
            session_id=session_id,
            words=f"A terminal of session {session_id}",
            is_lasting=False,
        )
        for session_id in marked_sessions(kind="terminal")
    ]
