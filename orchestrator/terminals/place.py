"""The sandbox that a terminal is opened in: the session's own, as its runs see it."""

from __future__ import annotations

from uuid import UUID

from agents.environments import environment_or_default
from config.faults import NoSandbox
from orchestrator.models import Step, Workflow
from sessions_app.models import Session
from sessions_app.standing import standing_mounts
from tools_app.sandbox import Sandbox, SessionFolder, provision


def sandbox_of(session: Session) -> Sandbox:
    """A sandbox on the session's files and what stands mounted in it. Secrets are not."""
    folder = SessionFolder(workspace_id=session.workspace_id, session_id=session.pk)
    environment = environment_or_default(session.workspace_id, session.environment_id)
    return provision(environment, folder, standing_mounts(session))


def session_of(workflow: Workflow) -> Session:
    """The session in whose sandbox the workflow works: that of its newest step with one."""
    steps = Step.objects.filter(workflow=workflow, detail__has_key="session_id")
    newest = steps.order_by("-position").values_list("detail__session_id", flat=True).first()
    rows = Session.objects.for_workspace(workflow.workspace_id).active()
    found = rows.filter(pk=UUID(str(newest))).first() if newest else None
    if found is None:
        raise NoSandbox
    return found
