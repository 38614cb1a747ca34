"""What a session is, in a few facts, for the pane beside the list and for its own page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from django.db.models import Count, F, Q, Sum
from django.db.models.functions import Coalesce, Now

from agents.models import AgentVersion, Environment
from sessions_app.models import Run, Session, ToolExecution
from sessions_app.pages.found import FAILED_CALLS, FAILED_RUNS
from sessions_app.pages.words import dollars, lasting, thousands
from tenants.models import User


@dataclass(frozen=True, kw_only=True)
class Facts:
    version: AgentVersion
    environment: Environment | None
    creator: User | None
    parent: Session | None
    runs: int
    errors: int
    children: int
    worked: str
    tokens_in: str
    tokens_out: str
    cost: str


def facts_of(session: Session) -> Facts:
    """Four queries, however long the session is."""
    joined = ["agent_version", "environment", "created_by", "parent"]
    whole = Session.objects.select_related(*joined).get(pk=session.pk)
    told = Run.objects.filter(session=session).aggregate(
        runs=Count("pk"),
        failed=Count("pk", filter=Q(status__in=FAILED_RUNS)),
        worked=Sum(Coalesce(F("finished_at"), Now()) - F("started_at")),
    )
    calls = ToolExecution.objects.filter(session=session, state__in=FAILED_CALLS).count()
    return Facts(
        version=whole.agent_version,
        environment=whole.environment,
        creator=whole.created_by,
        parent=whole.parent,
        runs=told["runs"],
        errors=told["failed"] + calls,
        children=session.children.active().count(),
        worked=lasting(told["worked"] or timedelta()),
        tokens_in=thousands(whole.input_tokens),
        tokens_out=thousands(whole.output_tokens),
        cost=dollars(Decimal(whole.cost)),
    )
