"""The way into the TaskAgent: who asks, whether there is money, and the workflow that does it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agents.environments import find_environment
from agents.inputs import read_input, wrong_field
from config.faults import Conflict, NotFound
from orchestrator.engine.starting import start_as
from orchestrator.models import Workflow
from orchestrator.taskagent.params import SessionParams, TaskParams
from orchestrator.taskagent.sessions import chosen_agent
from tenants.access import Principal, authorise
from tenants.spending import check_purses

EXECUTE, CREATE = "execute-task", "create-session"


def start_task(principal: Principal, fields: dict[str, Any], key: str | None) -> Workflow:
    """Start a task. The same key starts it once, however often it is asked for."""
    workspace_id = authorise(principal, "run")
    asked = read_input(TaskParams, fields)
    if asked.prompt or asked.agent:
        _check_agent(workspace_id, asked.agent)
    return _start(principal, workspace_id, EXECUTE, asked, key)


def start_session(principal: Principal, fields: dict[str, Any], key: str | None) -> Workflow:
    """Start the making of a session."""
    workspace_id = authorise(principal, "run")
    asked = read_input(SessionParams, fields)
    _check_agent(workspace_id, asked.agent)
    return _start(principal, workspace_id, CREATE, asked, key)


def _start(
    principal: Principal,
    workspace_id: UUID,
    name: str,
    asked: TaskParams | SessionParams,
    key: str | None,
) -> Workflow:
    if asked.environment:
        try:
            find_environment(workspace_id, asked.environment)
        except NotFound as fault:
            raise wrong_field("environment", fault.detail) from None
    payers = (principal.user_id, principal.key_id)
    check_purses(workspace_id, [owner for owner in payers if owner])
    return start_as(principal, name, asked.model_dump(mode="json"), key=key)[0]


def _check_agent(workspace_id: UUID, ref: str) -> None:
    """A name that nobody has is told at once, and not by a workflow that fails later."""
    try:
        chosen_agent(workspace_id, ref)
    except (NotFound, Conflict) as fault:
        raise wrong_field("agent", fault.detail) from None
