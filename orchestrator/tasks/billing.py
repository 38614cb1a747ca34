"""What the sandboxes of tasks cost: containers while they run, and every command by its time.

A command's time is its keeper's, so it is charged in full whatever was restarted meanwhile. Nothing
is charged while `SANDBOX_MINUTE_PRICE` is 0.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from decimal import Decimal
from math import ceil
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Sum

from orchestrator.engine.definition import Event
from orchestrator.models import Workflow
from sessions_app.sandbox_billing import Payers, get_payers
from tenants.billing.spending import charge_minutes, check_purses
from tenants.models import ModelCall, SandboxMinute


def owners_of(event: Event) -> list[UUID]:
    """Return who pays beside the workspace: the user and the API key that started the task."""
    key_id = Workflow.objects.filter(pk=event.id).values_list("key_id", flat=True).first()
    return [owner for owner in (event.created_by_id, key_id) if owner]


def cost_of_session(session_id: UUID) -> str:
    """Return what the session's model calls have cost so far, in US dollars."""
    spent = ModelCall.objects.filter(session_id=session_id).aggregate(cost=Sum("cost"))
    return str((spent["cost"] or Decimal(0)).normalize() + 0)


def payers_of_sandboxes(ids: Collection[UUID]) -> dict[UUID, Payers]:
    """Return who pays for each sandbox: a session's owners, or a task's workspace.

    A running task is not stopped for lack of credits: they were checked before, and its time is
    limited.
    """
    tasks = Workflow.objects.filter(pk__in=ids).values_list("pk", "workspace_id", "created_by_id")
    paid_by_workspace = {
        pk: Payers(workspace_id=found, owners=(), member_id=member_id, is_bounded=True)
        for pk, found, member_id in tasks
    }
    return {**get_payers(ids), **paid_by_workspace}


def check_task_affordable(workspace_id: UUID) -> None:
    """Raise when the workspace has no credits left for a terminal in a task's sandbox."""
    if settings.SANDBOX_MINUTE_PRICE > 0:
        check_purses(workspace_id, ())


def settle(event: Event, ran: dict[str, Any]) -> str:
    """Charge the command's minutes that are not charged yet. Return the sandbox's total cost.

    It may be repeated: each minute of a sandbox is charged once.
    """
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return "0"
    charge_minutes(
        event.workspace_id,
        ran["sandbox"],
        first=datetime.fromtimestamp(ran["began_at"], UTC),
        count=max(1, ceil((ran["ended_at"] - ran["began_at"]) / 60)),
        note=f"The command of task {event.id}",
        member_id=event.created_by_id,
    )
    minutes = SandboxMinute.objects.for_workspace(event.workspace_id)
    charged = minutes.filter(sandbox=ran["sandbox"]).count()
    return str((Decimal(charged) * settings.SANDBOX_MINUTE_PRICE).normalize() + 0)
