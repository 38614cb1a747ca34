"""Paths of the REST doors of tools, under /api/v1/."""

from __future__ import annotations

from django.urls import URLPattern, include, path
from rest_framework.routers import SimpleRouter

from tenants.access import Verb
from tools_app.api.custom import CustomToolViewSet
from tools_app.api.drafts import DraftChangesView, DraftPublishView, DraftUndoView, DraftView
from tools_app.api.mcp import McpServerViewSet
from tools_app.api.policies import doors_of
from tools_app.api.skills import SkillViewSet
from tools_app.api.tools import (
    AgentExplainView,
    AgentToolsView,
    SessionExplainView,
    ToolListView,
)
from tools_app.policy import LayerName


def _policy(under: str, layer: LayerName, verb: Verb) -> list[URLPattern]:
    """The same three doors wherever a policy hangs."""
    return [
        path(
            f"{under}policy/{name}/" if name else f"{under}policy/",
            view.as_view(),
            name=f"{layer}-policy-{name}" if name else f"{layer}-policy",
        )
        for name, view in doors_of(layer, verb).items()
    ]


AGENT, SESSION = "agents/<uuid:agent_id>/", "sessions/<uuid:session_id>/"

router = SimpleRouter()
router.register("tools/custom", CustomToolViewSet, basename="custom-tool")
router.register("tools/mcp-servers", McpServerViewSet, basename="mcp-server")
router.register("skills", SkillViewSet, basename="skill")

urlpatterns = [
    path("", include(router.urls)),
    path("tools/", ToolListView.as_view(), name="tool-list"),
    path(f"{AGENT}tools/", AgentToolsView.as_view(), name="agent-tools"),
    path(f"{AGENT}policy/explain/", AgentExplainView.as_view(), name="agent-policy-explain"),
    path(f"{SESSION}policy/explain/", SessionExplainView.as_view(), name="session-policy-explain"),
    path(f"{AGENT}draft/", DraftView.as_view(), name="agent-draft"),
    path(f"{AGENT}draft/publish/", DraftPublishView.as_view(), name="agent-draft-publish"),
    path(f"{AGENT}draft/changes/", DraftChangesView.as_view(), name="agent-draft-changes"),
    path(
        f"{AGENT}draft/changes/<uuid:change_id>/undo/",
        DraftUndoView.as_view(),
        name="agent-draft-undo",
    ),
    *_policy("workspace/", "workspace", "admin"),
    *_policy(AGENT, "agent", "build"),
    *_policy("environments/<uuid:environment_id>/", "environment", "build"),
    *_policy(SESSION, "session", "run"),
]
