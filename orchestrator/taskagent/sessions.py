"""CreateSession, and the session in which a task's prompt is answered."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agents.definitions import find_agent
from agents.environments import find_environment
from agents.models import Agent
from config.faults import Conflict, Fault, NonRetryableError, NotFound
from orchestrator.engine.definition import Event, Workflow, workflow
from orchestrator.engine.steps import Steps
from orchestrator.taskagent.params import SessionParams, TaskParams
from sessions_app.models import Run, Session
from sessions_app.sessions import cancel_run, get_or_create_session
from sessions_app.waiting import OVER

LONGEST_TITLE = 80


@workflow(name="create-session")
class CreateSession(Workflow):
    """Makes a session of an agent, once."""

    params = SessionParams

    def run(self, event: Event, step: Steps) -> Any:
        asked = SessionParams.model_validate(event.payload)
        made = step.do("create session", lambda: create_session(event, asked), delay=1)
        self.report_progress("The session is there", percent=100, status="complete")
        return made


def create_session(event: Event, asked: SessionParams) -> dict[str, Any]:
    """The same session in every attempt: without a key of the client's, the workflow's is used."""
    key = asked.session_key or f"workflow:{event.id}"
    return _open(event, asked.agent, asked.environment, key, asked.title)


def open_session(event: Event, asked: TaskParams, key: str) -> dict[str, Any]:
    """The session that `step.run_session` will use under this key."""
    title = " ".join(asked.prompt.split())[:LONGEST_TITLE]
    return _open(event, asked.agent, asked.environment, f"workflow:{event.id}:{key}", title)


def _open(event: Event, ref: str, place: str, key: str, title: str) -> dict[str, Any]:
    try:
        agent = chosen_agent(event.workspace_id, ref)
        environment = find_environment(event.workspace_id, place) if place else None
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


def chosen_agent(workspace_id: UUID, ref: str) -> Agent:
    """The agent of this name or id; without one, the workspace's eldest."""
    if ref:
        return find_agent(workspace_id, ref)
    agents = Agent.objects.for_workspace(workspace_id).active().select_related("current")
    if found := agents.order_by("created_at").first():
        return found
    raise NotFound("This workspace has no agent.")


def stop_session(session_id: UUID, author_id: UUID | None) -> None:
    """Nobody waits for the agent any more."""
    if not Session.objects.filter(pk=session_id).exists():
        return
    for run in Run.objects.filter(session_id=session_id).exclude(status__in=OVER):
        try:
            cancel_run(run, author_id)
        except Conflict:
            continue  # it ended by itself meanwhile
