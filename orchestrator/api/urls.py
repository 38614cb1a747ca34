"""URLs of the REST API of workflows and terminals: under /api/v1/, and a few without a version."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from orchestrator.api.tasks import ArtifactsView, ArtifactView, SessionView, TaskView
from orchestrator.api.terminals import TerminalViewSet
from orchestrator.api.triggers import HookView, TriggerViewSet
from orchestrator.api.workflows import CanvasRunViewSet, WorkflowViewSet
from orchestrator.consumers import WorkflowStream

router = SimpleRouter()
router.register("workflows", WorkflowViewSet, basename="workflow")
router.register("terminals", TerminalViewSet, basename="terminal")
router.register("triggers", TriggerViewSet, basename="trigger")

urlpatterns = [
    path(
        "agents/<uuid:agent_id>/canvas/run/",
        CanvasRunViewSet.as_view({"post": "run"}),
        name="agent-canvas-run",
    ),
    path(
        "agents/<uuid:agent_id>/canvas/runs/",
        CanvasRunViewSet.as_view({"get": "list"}),
        name="agent-canvas-runs",
    ),
    path(
        "agents/<uuid:agent_id>/canvas/runs/<uuid:run_id>/",
        CanvasRunViewSet.as_view({"get": "retrieve"}),
        name="agent-canvas-run-detail",
    ),
    path(
        "agents/<uuid:agent_id>/canvas/runs/<uuid:run_id>/nodes/<str:node>/",
        CanvasRunViewSet.as_view({"get": "node"}),
        name="agent-canvas-run-node",
    ),
    path(
        "agents/<uuid:agent_id>/canvas/test/",
        CanvasRunViewSet.as_view({"post": "test"}),
        name="agent-canvas-test",
    ),
    path("workflows/<str:pk>/stream/", WorkflowStream.as_view(), name="workflow-stream"),
    path("workflows/<str:pk>/artifacts/", ArtifactsView.as_view(), name="workflow-artifacts"),
    path(
        "workflows/<str:pk>/artifacts/<path:path>", ArtifactView.as_view(), name="workflow-artifact"
    ),
    path("", include(router.urls)),
]

#: Tasks, and the webhooks that other systems call.
unversioned_urlpatterns = [
    path("api/orchestrator", TaskView.as_view(), name="orchestrator"),
    path("api/orchestrator/session", SessionView.as_view(), name="orchestrator-session"),
    # Also with a trailing slash; the OpenAPI document lists each path once.
    path("api/orchestrator/", TaskView.as_view(schema=None)),
    path("api/orchestrator/session/", SessionView.as_view(schema=None)),
    path("hooks/<str:token>/", HookView.as_view(), name="hook"),
]
