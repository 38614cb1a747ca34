"""The socket routes of agents."""

from __future__ import annotations

from django.urls import path

from agents.canvas_socket import CanvasConsumer
from agents.draft_socket import DraftConsumer

websocket_urlpatterns = [
    path("ws/agents/<uuid:agent_id>/canvas/", CanvasConsumer.as_asgi(), name="canvas_socket"),
    path("ws/agents/<uuid:agent_id>/draft/", DraftConsumer.as_asgi(), name="draft_socket"),
]
