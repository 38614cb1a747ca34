"""The socket routes of tenants."""

from __future__ import annotations

from django.urls import URLPattern, path

from tenants.consumers import InboxConsumer

websocket_urlpatterns: list[URLPattern] = [
    path("ws/inbox/<uuid:workspace_id>/", InboxConsumer.as_asgi()),
]
