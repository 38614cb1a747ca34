"""The socket routes of workflows and terminals."""

from __future__ import annotations

from django.urls import path

from orchestrator.list_socket import WorkflowListConsumer
from orchestrator.streams import WorkflowConsumer
from orchestrator.terminals.consumer import TerminalConsumer

websocket_urlpatterns = [
    path("ws/workflows/", WorkflowListConsumer.as_asgi(), name="workflow_list_socket"),
    path("ws/workflows/<str:workflow_id>/", WorkflowConsumer.as_asgi(), name="workflow_socket"),
    path("ws/terminals/<uuid:terminal_id>/", TerminalConsumer.as_asgi(), name="terminal_socket"),
]
