"""Who pays for a task, and what its agent cost."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from orchestrator.engine.definition import Event
from orchestrator.models import Workflow
from tenants.models import ModelCall


def owners_of(event: Event) -> list[UUID]:
    """Whose purses pay beside the workspace's: who started it, and the key that did."""
    key_id = Workflow.objects.filter(pk=event.id).values_list("key_id", flat=True).first()
    return [owner for owner in (event.created_by_id, key_id) if owner]


def cost_of_session(session_id: UUID) -> str:
    """What the session's calls of models cost so far, in US dollars."""
    told = ModelCall.objects.filter(session_id=session_id).aggregate(cost=Sum("cost"))
    return str((told["cost"] or Decimal(0)).normalize() + 0)
