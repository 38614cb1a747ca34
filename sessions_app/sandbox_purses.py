"""Whose purses pay for the sandboxes of a session, and the end of those that nobody can pay for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

import structlog
from django.conf import settings

from config.faults import BudgetReached, Fault, OutOfCredits
from sessions_app import lanes
from sessions_app.models import Run, Session
from sessions_app.statements import rows
from tenants.spending import check_purses
from tools_app.sandbox import kill_leftovers
from tools_app.sandbox.container import remove_containers

OutOfMoney: TypeAlias = BudgetReached | OutOfCredits
log = structlog.get_logger(__name__)

#: As of a call of the model: the workspace, the agent, the session, and the sessions above it.
CHAINS = """
WITH RECURSIVE above (below, id, up) AS (
  SELECT s.id, s.id, s.parent_id FROM agent_sessions s WHERE s.id = ANY(%s)
  UNION SELECT a.below, s.id, s.parent_id FROM agent_sessions s JOIN above a ON s.id = a.up)
SELECT s.id, s.workspace_id, s.agent_id, array_agg(a.id) FROM above a
  JOIN agent_sessions s ON s.id = a.below GROUP BY s.id
"""


@dataclass(frozen=True, kw_only=True)
class Payers:
    """Whose purses pay."""

    workspace_id: UUID
    owners: tuple[UUID, ...]
    #: What runs there was paid for by its time limit, and is not ended for money.
    is_bounded: bool = False


def payers_of(session_ids: Collection[UUID]) -> dict[UUID, Payers]:
    """Those that are sessions. A sandbox of anything else is nobody's to pay."""
    return {
        pk: Payers(workspace_id=workspace_id, owners=(workspace_id, agent_id, *chain))
        for pk, workspace_id, agent_id, chain in rows(CHAINS, [list(session_ids)])
    }


def check_affordable(session_id: UUID) -> None:
    """Raise when a purse of this session has nothing left: no sandbox is begun on it."""
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return
    for payers in payers_of([session_id]).values():
        check_purses(payers.workspace_id, payers.owners)


def find_unpaid(payers: Mapping[UUID, Payers]) -> dict[UUID, OutOfMoney]:
    """Of these sessions, those with an empty purse, and what is to be said of it."""
    unpaid: dict[UUID, OutOfMoney] = {}
    for session_id, paying in payers.items():
        if paying.is_bounded:
            continue
        try:
            check_purses(paying.workspace_id, paying.owners)
        except (BudgetReached, OutOfCredits) as fault:
            unpaid[session_id] = fault
    return unpaid


def stop_unpaid(session_id: UUID, fault: OutOfMoney) -> None:
    """End what runs in the sandboxes of a session. Its files stay.

    Its run ends as at a call of the model that cannot be paid: raised, the budget lets it go on.
    """
    if Session.objects.filter(pk=session_id, status=Session.Status.RUNNING).exists():
        error = {"code": fault.code, "message": fault.detail, "retryable": True}
        lanes.stop(session_id, stop_reason="budget_reached", outcome=Run.Status.FAILED, error=error)
    try:
        kill_leftovers(session_id)
        remove_containers(session_id)
    except Fault:
        log.warning("sandbox_not_ended", session_id=str(session_id), exc_info=True)
