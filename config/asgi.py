"""The ASGI application: HTTP and WebSocket."""

from __future__ import annotations

import os

import django
from channels.routing import ProtocolTypeRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.local")
django.setup(set_prefix=False)

# These import models, so Django must be set up first.
from config.routing import http_router, socket_router
from core.request_limits import limit_requests
from core.server import Backpressure, disable_form_parsing, leave_connections_to_handler
from tenants.authentication import require_identity
from tenants.sockets import SocketIdentity

disable_form_parsing()
leave_connections_to_handler()
limit_requests(identify=require_identity)
application = Backpressure(
    ProtocolTypeRouter({"http": http_router(), "websocket": SocketIdentity(socket_router())})
)
