"""The REST paths of agents, environments and model providers, under /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from agents.api import agents, canvas, drafts, providers

router = SimpleRouter()
router.register("agents", agents.AgentViewSet, basename="agent")
router.register("environments", agents.EnvironmentViewSet, basename="environment")
router.register("prices", providers.PriceViewSet, basename="price")

#: Below `agents/{id}/`.
agent_urls = [
    path("versions/", agents.VersionViewSet.as_view({"get": "list"}), name="agent-versions"),
    path(
        "versions/<int:number>/",
        agents.VersionViewSet.as_view({"get": "retrieve"}),
        name="agent-version",
    ),
    path("canvas/", canvas.CanvasView.as_view(), name="agent-canvas"),
    path("canvas/publish/", canvas.PublishView.as_view(), name="agent-canvas-publish"),
    path(
        "canvas/revisions/",
        canvas.RevisionViewSet.as_view({"get": "list"}),
        name="agent-canvas-revisions",
    ),
    path(
        "canvas/history/",
        canvas.BriefRevisionViewSet.as_view({"get": "list"}),
        name="agent-canvas-history",
    ),
    path(
        "canvas/revisions/<int:number>/",
        canvas.RevisionViewSet.as_view({"get": "retrieve"}),
        name="agent-canvas-revision",
    ),
    path("draft/", drafts.DraftView.as_view(), name="agent-draft"),
    path("draft/publish/", drafts.DraftPublishView.as_view(), name="agent-draft-publish"),
    path("draft/preview/", drafts.DraftPreviewView.as_view(), name="agent-draft-preview"),
    path("draft/changes/", drafts.DraftChangesView.as_view(), name="agent-draft-changes"),
    path(
        "draft/changes/<uuid:change_id>/undo/",
        drafts.DraftUndoView.as_view(),
        name="agent-draft-undo",
    ),
]

urlpatterns = [
    path("", include(router.urls)),
    path("agents/<uuid:agent_id>/", include(agent_urls)),
    path("builder/", drafts.BuilderView.as_view(), name="builder"),
    path("models/", providers.ModelListView.as_view(), name="model-list"),
    path("providers/", providers.ProviderListView.as_view(), name="provider-list"),
    path("providers/<str:name>/", providers.ProviderView.as_view(), name="provider"),
    path(
        "providers/<str:name>/models/",
        providers.ProviderModelsView.as_view(),
        name="provider-models",
    ),
    path("providers/<str:name>/use/", providers.ProviderUseView.as_view(), name="provider-use"),
    path("providers/<str:name>/test/", providers.ProviderTestView.as_view(), name="provider-test"),
]
