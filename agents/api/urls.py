"""The REST paths of agents, environments and model providers, under /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from agents.api.agents import AgentViewSet, EnvironmentViewSet, VersionViewSet
from agents.api.canvas import CanvasView, PublishView, RevisionViewSet
from agents.api.drafts import (
    BuilderView,
    DraftChangesView,
    DraftPreviewView,
    DraftPublishView,
    DraftUndoView,
    DraftView,
)
from agents.api.providers import (
    ModelListView,
    PriceViewSet,
    ProviderListView,
    ProviderTestView,
    ProviderView,
)

router = SimpleRouter()
router.register("agents", AgentViewSet, basename="agent")
router.register("environments", EnvironmentViewSet, basename="environment")
router.register("prices", PriceViewSet, basename="price")

#: Below `agents/{id}/`.
agent_urls = [
    path("versions/", VersionViewSet.as_view({"get": "list"}), name="agent-versions"),
    path(
        "versions/<int:number>/", VersionViewSet.as_view({"get": "retrieve"}), name="agent-version"
    ),
    path("canvas/", CanvasView.as_view(), name="agent-canvas"),
    path("canvas/publish/", PublishView.as_view(), name="agent-canvas-publish"),
    path(
        "canvas/revisions/",
        RevisionViewSet.as_view({"get": "list"}),
        name="agent-canvas-revisions",
    ),
    path(
        "canvas/revisions/<int:number>/",
        RevisionViewSet.as_view({"get": "retrieve"}),
        name="agent-canvas-revision",
    ),
    path("draft/", DraftView.as_view(), name="agent-draft"),
    path("draft/publish/", DraftPublishView.as_view(), name="agent-draft-publish"),
    path("draft/preview/", DraftPreviewView.as_view(), name="agent-draft-preview"),
    path("draft/changes/", DraftChangesView.as_view(), name="agent-draft-changes"),
    path("draft/changes/<uuid:change_id>/undo/", DraftUndoView.as_view(), name="agent-draft-undo"),
]

urlpatterns = [
    path("", include(router.urls)),
    path("agents/<uuid:agent_id>/", include(agent_urls)),
    path("builder/", BuilderView.as_view(), name="builder"),
    path("models/", ModelListView.as_view(), name="model-list"),
    path("providers/", ProviderListView.as_view(), name="provider-list"),
    path("providers/<str:name>/", ProviderView.as_view(), name="provider"),
    path("providers/<str:name>/test/", ProviderTestView.as_view(), name="provider-test"),
]
