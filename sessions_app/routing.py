"""The socket routes of sessions."""

from __future__ import annotations

from django.urls import path

from sessions_app.approval_socket import ApprovalConsumer
from sessions_app.consumers import SessionConsumer

websocket_urlpatterns = [
    path("ws/approvals/", ApprovalConsumer.as_asgi(), name="approval_socket"),
    path("ws/sessions/<uuid:session_id>/", SessionConsumer.as_asgi(), name="session_socket"),
]
