"""Where the web server enters: HTTP and WebSocket."""

from __future__ import annotations

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.local")
http = get_asgi_application()

# Only now are the apps loaded that these name.
from config.sockets import socket_router
from tenants.socket_identity import SocketIdentity

application = ProtocolTypeRouter({"http": http, "websocket": SocketIdentity(socket_router())})
