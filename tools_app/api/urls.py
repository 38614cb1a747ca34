"""The REST paths of tools and policies, under /api/v1/."""

from __future__ import annotations

from django.urls import URLPattern, include, path
from rest_framework.routers import SimpleRouter

from tenants.access import Verb
from tools_app.api import tools
from tools_app.api.policies import ExplainView, policy_views, session_policy
from tools_app.policy.rules import LayerName


def _policy_patterns(under: str, layer: LayerName, verb: Verb) -> list[URLPattern]:
    """Return the paths of the policy of one layer: the policy, its history, and reverting it."""
    return [
        path(
            f"{under}policy/{name}/" if name else f"{under}policy/",
            view.as_view(),
            name=f"{layer}-policy-{name}" if name else f"{layer}-policy",
        )
        for name, view in policy_views(layer, verb).items()
    ]


AGENT, SESSION = "agents/<uuid:agent_id>/", "sessions/<uuid:session_id>/"

router = SimpleRouter()
router.register("tools/custom", tools.CustomToolViewSet, basename="custom-tool")
router.register("tools/mcp-servers", tools.McpServerViewSet, basename="mcp-server")
router.register("skills", tools.SkillViewSet, basename="skill")

urlpatterns = [
    path("", include(router.urls)),
    path("tools/", tools.ToolListView.as_view(), name="tool-list"),
    path(f"{AGENT}tools/", tools.AgentToolsView.as_view(), name="agent-tools"),
    path(f"{AGENT}policy/explain/", ExplainView.as_view(), name="agent-policy-explain"),
    path(
        f"{SESSION}policy/explain/",
        ExplainView.as_view(policy_of=session_policy),
        name="session-policy-explain",
    ),
    *_policy_patterns("workspace/", "workspace", "admin"),
    *_policy_patterns(AGENT, "agent", "build"),
    *_policy_patterns("environments/<uuid:environment_id>/", "environment", "build"),
    *_policy_patterns(SESSION, "session", "run"),
]
