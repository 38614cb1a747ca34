"""Agents as models."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents.definitions import find_agent
from agents.models import Agent
from sessions_app.api.openai.base import ModelName, OpenAIView
from tenants.access import authorise

#: Agents that a list names at most.
MOST = 1_000


class ModelsView(OpenAIView):
    def get(self, request: Request) -> Response:
        """List the workspace's agents, oldest first."""
        workspace_id = authorise(self.principal, "read")
        rows = Agent.objects.for_workspace(workspace_id).offered().select_related("current")
        agents = rows.order_by("created_at", "pk")[:MOST]
        return Response({"object": "list", "data": [_model(agent) for agent in agents]})


class ModelView(OpenAIView):
    def get(self, request: Request, model: str) -> Response:
        """Retrieve an agent by its id or name."""
        workspace_id = authorise(self.principal, "read")
        return Response(_model(find_agent(workspace_id, ModelName.parse(model).agent)))


def _model(agent: Agent) -> dict[str, Any]:
    version = agent.current
    return {
        "id": version.name if version else str(agent.pk),
        "object": "model",
        "created": int(agent.created_at.timestamp()),
        "owned_by": "switchyard",
        "agent_id": str(agent.pk),
        "description": version.description if version else "",
    }
