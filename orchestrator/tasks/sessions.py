"""CreateSession, and the session in which a task's prompt is answered."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agents.environments import find_environment
from core.exceptions import Conflict, Fault
from orchestrator.engine.definition import Event, Workflow, workflow
from orchestrator.engine.steps import Steps
from orchestrator.exceptions import NonRetryableError
from orchestrator.tasks.start import SessionParams, TaskParams, chosen_agent
from sessions_app.lanes.signals import FINISHED
from sessions_app.models import Run, Session
from sessions_app.sessions import cancel_run, get_or_create_session

MAX_TITLE = 80


@workflow(name="create-session")
class CreateSession(Workflow):
    """Create a session of an agent, once."""

    params = SessionParams

    def run(self, event: Event, step: Steps) -> Any:
        params = SessionParams.model_validate(event.payload)
        made = step.do("create session", lambda: create_session(event, params), delay=1)
        self.report_progress("The session is ready", percent=100, status="complete")
        return made


def create_session(event: Event, params: SessionParams) -> dict[str, Any]:
    """Create the session, the same in every attempt: its key is the client's or the workflow's."""
    key = params.session_key or f"workflow:{event.id}"
    return _open(event, params.agent, params.environment, key, params.title)


def open_session(event: Event, params: TaskParams, key: str) -> dict[str, Any]:
    """Create the session that `step.run_session` will use under this key."""
    title = " ".join(params.prompt.split())[:MAX_TITLE]
    return _open(event, params.agent, params.environment, f"workflow:{event.id}:{key}", title)


def _open(event: Event, ref: str, environment_ref: str, key: str, title: str) -> dict[str, Any]:
    try:
        agent = chosen_agent(event.workspace_id, ref)
        environment = (
            find_environment(event.workspace_id, environment_ref) if environment_ref else None
        )
        session, _ = get_or_create_session(
            agent=agent,
            session_key=key,
            environment=environment,
            title=title,
            created_by_id=event.created_by_id,
            metadata={"workflow_id": str(event.id)},
        )
    except Fault as fault:
        raise NonRetryableError(fault.detail) from fault
    return {"session_id": str(session.pk), "agent_id": str(agent.pk), "agent": str(agent)}


def stop_session(session_id: UUID, author_id: UUID | None) -> None:
    """Cancel the session's runs, because the task no longer waits for the agent."""
    if not Session.objects.filter(pk=session_id).exists():
        return
    for run in Run.objects.filter(session_id=session_id).exclude(status__in=FINISHED):
        try:
            cancel_run(run, author_id)
        except Conflict:
            continue  # it ended by itself meanwhile
