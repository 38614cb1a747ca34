"""Paths beside the versioned API: the TaskAgent, and where other systems call."""

from __future__ import annotations

from django.urls import path

from orchestrator.api.taskagent import SessionMakerView, TaskView
from orchestrator.hooks import HookView

urlpatterns = [
    path("api/orchestrator", TaskView.as_view(), name="orchestrator"),
    path("api/orchestrator/session", SessionMakerView.as_view(), name="orchestrator-session"),
    # The same with a slash; the document names each once.
    path("api/orchestrator/", TaskView.as_view(schema=None)),
    path("api/orchestrator/session/", SessionMakerView.as_view(schema=None)),
    path("hooks/<str:token>/", HookView.as_view(), name="hook"),
]
