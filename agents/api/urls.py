"""Paths of agents' REST doors, under /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from agents.api.agents import AgentViewSet, VersionViewSet
from agents.api.canvas import CanvasView, PublishView, RevisionViewSet
from agents.api.environments import EnvironmentViewSet
from agents.api.prices import PriceViewSet
from agents.api.providers import ModelListView, ProviderListView, ProviderTestView, ProviderView

router = SimpleRouter()
router.register("agents", AgentViewSet, basename="agent")
router.register("environments", EnvironmentViewSet, basename="environment")
router.register("prices", PriceViewSet, basename="price")

urlpatterns = [
    path("", include(router.urls)),
    path(
        "agents/<uuid:agent_id>/versions/",
        VersionViewSet.as_view({"get": "list"}),
        name="agent-versions",
    ),
    path(
        "agents/<uuid:agent_id>/versions/<int:number>/",
        VersionViewSet.as_view({"get": "retrieve"}),
        name="agent-version",
    ),
    path("agents/<uuid:agent_id>/canvas/", CanvasView.as_view(), name="agent-canvas"),
    path(
        "agents/<uuid:agent_id>/canvas/publish/", PublishView.as_view(), name="agent-canvas-publish"
    ),
    path(
        "agents/<uuid:agent_id>/canvas/revisions/",
        RevisionViewSet.as_view({"get": "list"}),
        name="agent-canvas-revisions",
    ),
    path(
        "agents/<uuid:agent_id>/canvas/revisions/<int:number>/",
        RevisionViewSet.as_view({"get": "retrieve"}),
        name="agent-canvas-revision",
    ),
    path("models/", ModelListView.as_view(), name="model-list"),
    path("providers/", ProviderListView.as_view(), name="provider-list"),
    path("providers/<str:name>/", ProviderView.as_view(), name="provider"),
    path("providers/<str:name>/test/", ProviderTestView.as_view(), name="provider-test"),
]
