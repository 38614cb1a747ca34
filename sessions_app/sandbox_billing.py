"""Charges for the sandboxes of sessions: containers and terminals while they run, commands by time.

Nothing is charged while `SANDBOX_MINUTE_PRICE` is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TypeAlias
from uuid import UUID

import structlog
from django.conf import settings
from django.utils import timezone

from agents.environments import environment_or_default
from agents.models import Environment
from core.exceptions import Fault
from sessions_app.harness.model_call import spender_for
from sessions_app.harness.turn import Turn
from sessions_app.lanes import run_queue
from sessions_app.ledger import CallResult
from sessions_app.models import Run, Session, ToolExecution
from tenants.billing import spending
from tenants.exceptions import BudgetReached, DatabaseQuotaReached, OutOfCredits
from tools_app.registry import Category
from tools_app.sandbox.container.claims import sessions_with_claims
from tools_app.sandbox.container.lifecycle import ROLE, SESSION, list_containers, remove_containers
from tools_app.sandbox.processes import marked_sessions
from tools_app.sandbox.provisioning import kill_leftovers

OutOfMoney: TypeAlias = BudgetReached | OutOfCredits
log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Payers:
    """The purses that pay for a sandbox."""

    workspace_id: UUID
    owners: tuple[UUID, ...]
    #: The member whose work it is, for reports of usage.
    member_id: UUID | None = None
    #: Its time limit bounds the cost, so it is not stopped for an empty purse.
    is_bounded: bool = False


def get_payers(session_ids: Collection[UUID]) -> dict[UUID, Payers]:
    """Return the payers of these sessions: workspace, agent, session and the sessions above it.

    Ids that are no sessions are left out.
    """
    columns = ("pk", "workspace_id", "agent_id", "ancestors", "created_by_id")
    sessions = list(Session.objects.filter(pk__in=list(session_ids)).values_list(*columns))
    # A sub-agent works for the member who started the newest run of the session at the top.
    tops = {pk: ancestors[0] if ancestors else pk for pk, _, _, ancestors, _ in sessions}
    starters = _newest_starters(tops.values())
    return {
        pk: Payers(
            workspace_id=workspace_id,
            owners=(workspace_id, agent_id, pk, *ancestors),
            member_id=starters.get(tops[pk]) or created_by_id,
        )
        for pk, workspace_id, agent_id, ancestors, created_by_id in sessions
    }


def _newest_starters(session_ids: Iterable[UUID]) -> dict[UUID, UUID | None]:
    """Return who started the newest run of each of these sessions."""
    runs = Run.objects.filter(session_id__in=set(session_ids))
    newest = runs.order_by("session_id", "-created_at").distinct("session_id")
    return dict(newest.values_list("session_id", "created_by_id"))


def check_affordable(session_id: UUID) -> None:
    """Raise if a purse of this session is empty, so that no sandbox is started."""
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return
    for payers in get_payers([session_id]).values():
        spending.check_purses(payers.workspace_id, payers.owners)


def find_unpaid(payers: Mapping[UUID, Payers]) -> dict[UUID, OutOfMoney]:
    """Return the sessions with an empty purse, each with the error that says which."""
    unpaid: dict[UUID, OutOfMoney] = {}
    for session_id, paying in payers.items():
        if paying.is_bounded:
            continue
        try:
            spending.check_purses(paying.workspace_id, paying.owners)
        except DatabaseQuotaReached:
            continue  # what runs already is paid for, and may end
        except (BudgetReached, OutOfCredits) as fault:
            unpaid[session_id] = fault
    return unpaid


def stop_unpaid(session_id: UUID, fault: OutOfMoney) -> None:
    """Stop what runs in the sandboxes of a session. Its files stay.

    Its run ends as if a model call could not be paid, and goes on once the budget is raised.
    """
    if Session.objects.filter(pk=session_id, status=Session.Status.RUNNING).exists():
        error = {"code": fault.code, "message": fault.detail, "retryable": True}
        run_queue.stop(
            session_id, stop_reason="budget_reached", outcome=Run.Status.FAILED, error=error
        )
    try:
        kill_leftovers(session_id)
        remove_containers(session_id)
    except Fault:
        log.warning("sandbox_not_ended", session_id=str(session_id), exc_info=True)


@dataclass(frozen=True, kw_only=True)
class RunningSandbox:
    """A container or terminal that runs now."""

    id: str
    session_id: UUID
    note: str
    #: Its id is never reused, so minutes since the last charge are known to be its own.
    is_lasting: bool


#: Finds the payers of sandboxes, of sessions or of anything else.
WhoPays = Callable[[Collection[UUID]], dict[UUID, Payers]]


@dataclass(frozen=True, kw_only=True)
class BillingReport:
    """How many minutes were charged, and which sessions cannot pay for the next."""

    minutes: int = 0
    unpaid: dict[UUID, OutOfMoney] = field(default_factory=dict)


def charge_running(who_pays: WhoPays = get_payers) -> BillingReport:
    """Charge every container and terminal of this machine up to now.

    Every supervisor calls this; a minute that another one has charged is not charged again.
    """
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return BillingReport()
    found = [*_containers(), *_terminals()]
    payers = who_pays({sandbox.session_id for sandbox in found})
    before = spending.last_charged(sandbox.id for sandbox in found)
    now, charged = spending.this_minute(), 0
    for sandbox in found:
        if paying := payers.get(sandbox.session_id):
            first, count = (
                spending.uncharged(before.get(sandbox.id), now) if sandbox.is_lasting else (now, 1)
            )
            charged += spending.charge_minutes(
                paying.workspace_id,
                sandbox.id,
                first=first,
                count=count,
                note=sandbox.note,
                owners=paying.owners,
                member_id=paying.member_id,
            )
    return BillingReport(minutes=charged, unpaid=find_unpaid(payers))


def charge_commands(turn: Turn, results: Sequence[CallResult]) -> None:
    """Charge finished local commands per started minute. A container is charged while it runs.

    Called in the transaction that writes the results, so that each result is charged exactly once.
    """
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return
    commands = [result.execution for result in results if _is_command(turn, result)]
    if commands and _runs_locally(turn.workspace_id, turn.environment_id):
        spender = spender_for(turn)
        for call in commands:
            _charge(call, spender.owners, spender.user_id)


def charge_command(
    call: ToolExecution,
    session: Session,
    others: Collection[UUID] = (),
    member_id: UUID | None = None,
) -> None:
    """Charge one command that no run made to the session's purses and to those of others."""
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return
    if _runs_locally(session.workspace_id, session.environment_id):
        owners = get_payers([session.pk])[session.pk].owners
        _charge(call, [*owners, *others], member_id)


def _charge(call: ToolExecution, owners: Sequence[UUID], member_id: UUID | None) -> None:
    if call.started_at is None:
        return
    seconds = (timezone.now() - call.started_at).total_seconds()
    spending.charge_minutes(
        call.workspace_id,
        f"call:{call.tool_use_id}",
        first=call.started_at,
        count=max(1, ceil(seconds / 60)),
        note=f"A command of session {call.session_id}",
        owners=owners,
        member_id=member_id,
    )


def _is_command(turn: Turn, result: CallResult) -> bool:
    tool = turn.policy.tools.get(result.execution.name)
    return tool is not None and tool.category == Category.EXEC


def _runs_locally(workspace_id: UUID, environment_id: UUID | None) -> bool:
    """Return whether a command is charged by itself, and not as part of a running container."""
    return environment_or_default(workspace_id, environment_id).kind != Environment.Kind.CONTAINER


def _containers() -> list[RunningSandbox]:
    # Without a claimed container there is no reason to ask a container engine.
    boxes = list_containers() if sessions_with_claims() else []
    return [
        RunningSandbox(
            id=box["Id"],
            session_id=UUID(box["Labels"][SESSION]),
            note=f"A container ({box['Labels'][ROLE]}) of session {box['Labels'][SESSION]}",
            is_lasting=True,
        )
        for box in boxes
        if box.get("State") == "running"
    ]


def _terminals() -> list[RunningSandbox]:
    return [
        RunningSandbox(
            id=f"terminal:{session_id}",
            session_id=session_id,
            note=f"A terminal of session {session_id}",
            is_lasting=False,
        )
        for session_id in marked_sessions(kind="terminal")
    ]
