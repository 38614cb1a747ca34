"""The tool by which an agent starts a workflow."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from django.db import transaction
from pydantic import Field

from config.faults import Fault, ToolFailed
from orchestrator.canvas.running import CANVAS
from orchestrator.engine.starting import start_workflow
from sessions_app.models import Session
from sessions_app.spawns import origin_of
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool

#: How far up the sessions above are looked at; spawning is bounded far below it.
HIGHEST = 20


class RunWorkflow(Arguments):
    workflow: str = Field(
        default="", max_length=100, description="A registered workflow. Else your own canvas."
    )
    params: dict[str, Any] = Field(
        default={}, description="What the workflow wants to know, or the input of your canvas."
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
    """Start a registered workflow, or what people published of your own canvas. Answers with its id."""
    name, params = arguments.workflow or CANVAS, arguments.params
    if name == CANVAS:
        params = {"agent": str(context.agent_id), "input": params}
    digest = sha256(f"{context.session_id}:{context.call_id}".encode()).hexdigest()[:40]
    with transaction.atomic():
        context.fence()
        _check_no_circle(context)
        try:
            with transaction.atomic():
                made, _ = start_workflow(
                    context.workspace_id,
                    name,
                    params,
                    key=f"call:{digest}",
                    created_by_id=context.user_id,
                    agent_id=context.agent_id,
                    # Whoever pays for the turn pays for what it starts.
                    key_id=origin_of(context.run_id)[1],
                )
        except Fault as fault:
            raise ToolFailed(fault.detail) from fault
    return {"workflow_id": str(made.pk), "workflow": name, "status": made.status}


def _check_no_circle(context: ToolContext) -> None:
    """What a workflow lets an agent do must not start workflows without end."""
    session = Session.objects.filter(pk=context.session_id).first()
    for _ in range(HIGHEST):
        if session is None:
            return
        if session.metadata.get("workflow_id"):
            raise ToolFailed("A workflow runs this session, and such a session starts no other.")
        session = session.parent
    raise ToolFailed("This session is nested too deeply to start a workflow.")
