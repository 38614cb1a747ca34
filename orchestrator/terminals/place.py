"""The sandbox that a terminal is opened in: a session's own, as its runs see it, or a task's."""

from __future__ import annotations

from uuid import UUID

from agents.environments import environment_or_default
from config.faults import NoSandbox
from orchestrator.models import Step, Terminal, Workflow
from orchestrator.taskagent import place as places
from orchestrator.taskagent.deeds import environment_of
from orchestrator.taskagent.place import TaskPlace
from sessions_app.models import Session
from sessions_app.standing import standing_mounts
from tools_app.sandbox import Sandbox, SessionFolder, provision


def sandbox_of(terminal: Terminal) -> Sandbox:
    if terminal.session:
        return _of_session(terminal.session)
    here = task_place_of(terminal.workflow_id)
    return provision(environment_of(here), here.folder)


def _of_session(session: Session) -> Sandbox:
    """A sandbox on the session's files and what stands mounted in it. Secrets are not."""
    folder = SessionFolder(workspace_id=session.workspace_id, session_id=session.pk)
    environment = environment_or_default(session.workspace_id, session.environment_id)
    return provision(environment, folder, standing_mounts(session))


def session_of(workflow: Workflow) -> Session | None:
    """The session in whose sandbox the workflow works: that of its newest step with one."""
    steps = Step.objects.filter(workflow=workflow, detail__has_key="session_id")
    newest = steps.order_by("-position").values_list("detail__session_id", flat=True).first()
    rows = Session.objects.for_workspace(workflow.workspace_id).active()
    return rows.filter(pk=UUID(str(newest))).first() if newest else None


def task_place_of(workflow_id: UUID | None) -> TaskPlace:
    """The sandbox of a task's command, while it works or is kept on this machine."""
    here = places.read(workflow_id) if workflow_id else None
    if here is None or here.session_id:
        raise NoSandbox
    return here
