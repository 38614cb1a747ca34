"""The page on which people draw, run and debug the canvas of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents.canvas import revisions
from agents.canvas.graph import MOST_NODES, NODE_TYPES, validate
from agents.canvas.layout import HEIGHT, WIDTH, lay_out
from agents.canvas.templates import TEMPLATES
from agents.models import Agent
from orchestrator.canvas.plan import CANVAS, why_unfit, why_unfit_workflow
from orchestrator.engine.definition import definitions
from orchestrator.models import WorkflowTrigger
from sessions_app.builder import find_editable_agent
from tenants.access import Principal
from tenants.authentication import principal_of
from tools_app.registry import Tool
from tools_app.workspace_tools import tools_of_workspace

#: The icons that the editor draws.
ICONS = (
    *("bot", "calendar-clock", "circle-check", "circle-help", "clock", "code", "flag"),
    *("git-branch", "globe", "keyboard", "layout-template", "maximize-2", "network", "pin"),
    *("play", "plug", "plus", "redo-2", "repeat", "search", "shield-check", "sticky-note"),
    *("triangle-alert", "undo-2", "users", "webhook", "workflow", "wrench", "x", "zap"),
)


@never_cache
@require_safe
def agent_canvas(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    agent = find_editable_agent(principal, agent_id)
    context = {"agent": agent, "may_build": principal.may("build"), **context_of(principal, agent)}
    return render(request, "pages/canvas/canvas.html", context)


def context_of(principal: Principal, agent: Agent) -> dict[str, Any]:
    """Return what the editor starts with, and the picture for browsers without JavaScript."""
    drawn = revisions.read(agent)
    tools = tools_of_workspace(agent.workspace_id)
    issues = validate(drawn.graph, tools=tools) if drawn.graph.nodes else []
    names = {node.id: node.name or node.id for node in drawn.graph.nodes}
    return {
        "drawn": drawn,
        "paper": lay_out(drawn.graph),
        "box_width": WIDTH,
        "box_height": HEIGHT,
        "problems": [(names.get(issue.node or "", ""), issue) for issue in issues],
        "canvas_icons": ICONS,
        "boot": {
            "agent": {"id": str(agent.pk), "name": str(agent)},
            "me": {"id": str(principal.user_id), "name": _name_of(principal)},
            "may_build": principal.may("build"),
            "may_run": principal.may("run"),
            "canvas": {**drawn.as_json(), "problems": [issue.as_json() for issue in issues]},
            "most_nodes": MOST_NODES,
            "tools": _tools(tools),
            "agents": _agents(agent),
            "workflows": _workflows(),
            "plugins": [
                {
                    "name": kind.name,
                    "about": kind.about,
                    "schema": kind.config.model_json_schema(),
                }
                for kind in NODE_TYPES.values()
            ],
            "triggers": _triggers(agent),
            "templates": TEMPLATES,
            "urls": {
                "canvas": reverse("agent-canvas", args=[agent.pk]),
                "socket": f"/ws/agents/{agent.pk}/canvas/",
                "workflows": reverse("workflows"),
                "sessions": reverse("chat_session", args=[agent.pk]).removesuffix(f"{agent.pk}/"),
                "trigger_new": f"{reverse('trigger_new')}?{urlencode({'agent': str(agent.pk)})}",
                "page": reverse("agent_canvas", args=[agent.pk]),
            },
        },
    }


def _tools(tools: Mapping[str, Tool]) -> list[dict[str, Any]]:
    """Return the tools that a node can call, by category."""
    return [
        {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description[:400],
            "category": str(tool.category),
            "schema": tool.json_schema,
        }
        for tool in sorted(tools.values(), key=lambda tool: (str(tool.category), tool.name))
        if not why_unfit(tool)
    ]


def _workflows() -> list[dict[str, Any]]:
    """Return the workflows that a node can run, beside canvases."""
    return [
        {
            "name": made.name,
            "about": made.description(),
            "schema": made.params.model_json_schema() if made.params else None,
        }
        for made in definitions()
        if made.name != CANVAS and not why_unfit_workflow(made.name)
    ]


def _name_of(principal: Principal) -> str:
    return principal.user.display_name if principal.user else "A program"


def _agents(agent: Agent) -> list[dict[str, str]]:
    """Return the other agents that a node can ask, by name."""
    rows = Agent.objects.for_workspace(agent.workspace_id).offered().exclude(pk=agent.pk)
    found = rows.order_by("current__name").values_list("pk", "current__name")
    return [{"id": str(pk), "name": name} for pk, name in found]


def _triggers(agent: Agent) -> list[dict[str, Any]]:
    rows = WorkflowTrigger.objects.for_workspace(agent.workspace_id)
    return [
        {
            "id": str(one.pk),
            "name": one.name,
            "kind": one.kind,
            "when": _when(one),
            "url": reverse("trigger", args=[one.pk]),
            "is_paused": one.paused_at is not None,
        }
        for one in rows.filter(agent=agent, workflow=CANVAS).order_by("name")
    ]


def _when(trigger: WorkflowTrigger) -> str:
    if trigger.kind == WorkflowTrigger.Kind.WEBHOOK:
        return "On each webhook call"
    if trigger.cron:
        return f"{trigger.cron} ({trigger.timezone})"
    return f"Every {trigger.interval_seconds} s"
