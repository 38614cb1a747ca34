"""What sandboxes of tasks cost: containers while they run, and every command by its own time.

A command's time is its keeper's, so it is charged whole whatever was restarted meanwhile. Nothing is
counted while `SANDBOX_MINUTE_PRICE` is 0.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from decimal import Decimal
from math import ceil
from typing import Any
from uuid import UUID

from django.conf import settings

from orchestrator.engine.definition import Event
from orchestrator.models import Workflow
from sessions_app.sandbox_purses import Payers, payers_of
from tenants.models import SandboxMinute
from tenants.sandbox_minutes import charge_minutes
from tenants.spending import check_purses


def payers_of_sandboxes(ids: Collection[UUID]) -> dict[UUID, Payers]:
    """Who pays for each sandbox: the purses of a session, or the workspace of a task.

    A task is not ended for money: its purses were looked at before it began, and its time is bounded.
    """
    tasks = Workflow.objects.filter(pk__in=ids).values_list("pk", "workspace_id")
    paid_by_workspace = {
        pk: Payers(workspace_id=found, owners=(), is_bounded=True) for pk, found in tasks
    }
    return {**payers_of(ids), **paid_by_workspace}


def check_task_affordable(workspace_id: UUID) -> None:
    """Raise when the workspace has nothing left to look into a task's sandbox with."""
    if settings.SANDBOX_MINUTE_PRICE > 0:
        check_purses(workspace_id, ())


def settle(event: Event, ran: dict[str, Any]) -> str:
    """Charge the command's minutes, those not charged yet; what its sandbox cost in all.

    As often as it is called: each minute of a sandbox is charged once.
    """
    if settings.SANDBOX_MINUTE_PRICE <= 0:
        return "0"
    charge_minutes(
        event.workspace_id,
        ran["sandbox"],
        first=datetime.fromtimestamp(ran["began_at"], UTC),
        count=max(1, ceil((ran["ended_at"] - ran["began_at"]) / 60)),
        note=f"The command of task {event.id}",
    )
    minutes = SandboxMinute.objects.for_workspace(event.workspace_id)
    charged = minutes.filter(sandbox=ran["sandbox"]).count()
    return str((Decimal(charged) * settings.SANDBOX_MINUTE_PRICE).normalize() + 0)
