"""URLs beside the versioned API: tasks, and the webhooks that other systems call."""

from __future__ import annotations

from django.urls import path

from orchestrator.api.tasks import SessionView, TaskView
from orchestrator.api.triggers import HookView

urlpatterns = [
    path("api/orchestrator", TaskView.as_view(), name="orchestrator"),
    path("api/orchestrator/session", SessionView.as_view(), name="orchestrator-session"),
    # Also with a trailing slash; the OpenAPI document lists each path once.
    path("api/orchestrator/", TaskView.as_view(schema=None)),
    path("api/orchestrator/session/", SessionView.as_view(schema=None)),
    path("hooks/<str:token>/", HookView.as_view(), name="hook"),
]
