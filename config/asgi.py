"""Where the web server enters: HTTP and WebSocket."""

from __future__ import annotations

import os

import django
from channels.routing import ProtocolTypeRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.local")
django.setup(set_prefix=False)

# Only now are the apps loaded that these name.
from config.backpressure import Backpressure
from config.one_thread import OneThreadHandler
from config.sockets import socket_router
from tenants.socket_identity import SocketIdentity

application = Backpressure(
    ProtocolTypeRouter({"http": OneThreadHandler(), "websocket": SocketIdentity(socket_router())})
)
