"""Paths of agents' REST doors, under /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from agents.api.agents import AgentViewSet, VersionViewSet
from agents.api.environments import EnvironmentViewSet
from agents.api.providers import ModelListView, ProviderListView, ProviderTestView, ProviderView

router = SimpleRouter()
router.register("agents", AgentViewSet, basename="agent")
router.register("environments", EnvironmentViewSet, basename="environment")

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
    path("models/", ModelListView.as_view(), name="model-list"),
    path("providers/", ProviderListView.as_view(), name="provider-list"),
    path("providers/<str:name>/", ProviderView.as_view(), name="provider"),
    path("providers/<str:name>/test/", ProviderTestView.as_view(), name="provider-test"),
]
