"""The workflow of a canvas: it begins with what is published, and keeps that whatever comes after."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from pydantic import Field

from agents.canvas import published
from agents.graph import Graph
from agents.inputs import Input
from config.faults import Conflict, Invalid, NotFound
from orchestrator.canvas.plan import check_runnable, find_canvas_agent, graph_of, plan_of
from orchestrator.canvas.walk import Walk, WalkInTurn
from orchestrator.engine.definition import Event, Workflow, workflow
from orchestrator.engine.steps import Steps
from tenants.off_loop import let_go

CANVAS = "canvas"


class CanvasParams(Input):
    agent: UUID = Field(title="Agent", description="Its id, as the address of its pages has it.")
    input: Any = Field(default=None, title="Input")
    #: Set when it starts: what is published then.
    revision: int | None = Field(default=None, title="Revision")


@workflow(name=CANVAS, version=2)
class CanvasRun(Workflow):
    """The published canvas of an agent, node by node; branches wait at the same time."""

    params = CanvasParams
    pinned = frozenset({"revision"})
    walk: ClassVar[type[Walk]] = Walk

    @classmethod
    def admit(cls, workspace_id: UUID, params: dict[str, Any]) -> dict[str, Any]:
        """Pin what is published now. A draft runs nothing, whoever asks for it."""
        agent = find_canvas_agent(workspace_id, params["agent"])
        if agent.archived_at:
            raise Invalid("This agent was archived.")
        try:
            revision = published(agent)
        except NotFound as fault:
            raise Conflict(fault.detail) from None
        if params.get("revision") not in (None, revision.number):
            raise Invalid(f"Only the published revision, {revision.number}, can be started.")
        graph = Graph.model_validate({"nodes": revision.nodes, "edges": revision.edges})
        check_runnable(agent, graph)
        return {**params, "revision": revision.number}

    def run(self, event: Event, step: Steps) -> Any:
        asked = CanvasParams.model_validate(event.payload)
        agent = find_canvas_agent(event.workspace_id, asked.agent)
        plan = plan_of(graph_of(agent, asked.revision or 0))
        let_go()
        return self.walk(self, step, agent, plan, asked.input).run()


@workflow(name=CANVAS, version=1)
class CanvasRunInTurn(CanvasRun):
    """Kept for runs that began before branches waited at the same time."""

    walk = WalkInTurn
