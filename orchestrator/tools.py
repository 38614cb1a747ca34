"""The tool with which an agent starts a workflow."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from django.db import transaction
from pydantic import Field

from agents.environments import environment_or_default, excess, find_environment
from core.exceptions import Fault
from orchestrator.canvas.plan import CANVAS
from orchestrator.engine.lifecycle import start_workflow
from orchestrator.tasks.start import CREATE, EXECUTE, chosen_agent
from sessions_app.models import Session
from sessions_app.subagents.spawns import turn_origin
from tools_app.exceptions import ToolFailed
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool

#: How many parent sessions are checked; spawning is limited far below it.
MAX_DEPTH = 20


class RunWorkflow(Arguments):
    workflow: str = Field(
        default="", max_length=100, description="The name of a workflow. Default: your own canvas."
    )
    params: dict[str, Any] = Field(
        default={}, description="The workflow's params, or the input of your canvas."
    )


@tool(
    category=Category.CANVAS,
    permission="always_ask",
    effects=[Effect.SESSIONS],
    idempotent=True,
    seconds=30,
    title="Start a workflow",
)
def run_workflow(arguments: RunWorkflow, context: ToolContext) -> dict[str, Any]:
    """Start a workflow, or the published version of your own canvas. Returns its id."""
    name, params = arguments.workflow or CANVAS, arguments.params
    if name == CANVAS:
        params = {"agent": str(context.agent_id), "input": params}
    if name in {EXECUTE, CREATE}:
        _check_environment(context, params)
    digest = sha256(f"{context.session_id}:{context.call_id}".encode()).hexdigest()[:40]
    with transaction.atomic():
        context.fence()
        _check_no_cycle(context)
        try:
            with transaction.atomic():
                started, _ = start_workflow(
                    context.workspace_id,
                    name,
                    params,
                    key=f"call:{digest}",
                    created_by_id=context.user_id,
                    agent_id=context.agent_id,
                    # What pays for the turn also pays for what the turn starts.
                    key_id=turn_origin(context.run_id)[1],
                )
        except Fault as fault:
            raise ToolFailed(fault.detail) from fault
    return {"workflow_id": str(started.pk), "workflow": name, "status": started.status}


def _check_environment(context: ToolContext, params: dict[str, Any]) -> None:
    """Raise if the task would work in an environment that allows more than the session's own."""
    session = Session.objects.get(pk=context.session_id)
    within = environment_or_default(session.workspace_id, session.environment_id)
    try:
        if ref := str(params.get("environment") or ""):
            chosen = find_environment(session.workspace_id, ref)
        else:
            agent = chosen_agent(session.workspace_id, str(params.get("agent") or ""))
            usual = agent.current.environment_id if agent.current else None
            chosen = environment_or_default(session.workspace_id, usual)
    except Fault as fault:
        raise ToolFailed(fault.detail) from fault
    if more := excess(chosen, within):
        raise ToolFailed(
            f"A task that you start cannot work in the environment {chosen.name!r}: compared with "
            f"yours, {within.name!r}, {more}."
        )


def _check_no_cycle(context: ToolContext) -> None:
    """Raise if a workflow runs this session or one above it: workflows could start without end."""
    session = Session.objects.filter(pk=context.session_id).first()
    for _ in range(MAX_DEPTH):
        if session is None:
            return
        if session.metadata.get("workflow_id"):
            raise ToolFailed("A workflow runs this session, so it cannot start another one.")
        session = session.parent
    raise ToolFailed("This session is nested too deeply to start a workflow.")
