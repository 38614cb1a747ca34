"""In whose name a builder's tool acts, and on which agent: never what the model says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import transaction

from agents.canvas import Author
from agents.models import Agent
from config.faults import Fault, StaleEpoch, ToolFailed
from sessions_app.models import Run
from tenants.access import Principal, authorise, principal_of_key, principal_of_user
from tenants.models import ApiKey
from tools_app.registry import ToolContext


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a builder's tool works on."""

    agent: Agent
    author: Author
    principal: Principal


@contextmanager
def desk_of(context: ToolContext) -> Iterator[Desk]:
    """A transaction in which this call may change the draft, and a lost worker may not."""
    if context.about_id is None:
        raise ToolFailed("This session builds no agent.")
    try:
        with transaction.atomic():
            context.fence()
            rows = Agent.objects.for_workspace(context.workspace_id)
            agent = rows.select_related("current").get(pk=context.about_id)
            principal = _sender(context)
            authorise(principal, "build", agent)
            author = Author(
                session_id=context.session_id, run_id=context.run_id, call_id=context.call_id
            )
            yield Desk(agent=agent, author=author, principal=principal)
    except (ToolFailed, StaleEpoch):
        raise
    except Fault as fault:
        raise ToolFailed(fault.detail) from fault


def _sender(context: ToolContext) -> Principal:
    """Whoever sent the message, or gave the answer, that this run goes on from."""
    run = Run.objects.select_related("created_by").get(pk=context.run_id)
    if run.key_id:
        key = ApiKey.objects.valid().select_related("created_by").filter(pk=run.key_id).first()
        return principal_of_key(key) if key else Principal()
    if run.created_by is None:
        return Principal()
    found = principal_of_user(run.created_by, context.workspace_id)
    # A person who left acts in another workspace by now.
    return found if found.workspace_id == context.workspace_id else Principal()
