"""Runs one web process of several, on sockets that `up` has opened."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

from channels.routing import get_default_application
from django.conf import settings
from prometheus_client import values

from core.server import request_threads
from core.watchdog import start_watchdog

#: Seconds between pings, which keep idle sockets open through proxies, and until one counts as
#: dead.
PING_EVERY, PING_WITHIN = 20, 30
HANDSHAKE_WITHIN = 5


def metrics_dir() -> Path:
    return Path(settings.DATA_DIR) / "metrics"


def forget_metrics() -> None:
    """Let the metrics of all web processes start at zero."""
    shutil.rmtree(metrics_dir(), ignore_errors=True)
    metrics_dir().mkdir()


def share_metrics() -> None:
    """Add up the metrics of all web processes in files, so that each of them can export the sums.

    Call it before the application is loaded, which creates the metrics.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics_dir())
    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]


def serve(listening: socket.socket, *, checks: socket.socket) -> None:
    """Serve until SIGTERM.

    Any number of processes may accept connections from `listening`. This process alone accepts
    those of `checks`, so a request there shows whether it answers.
    """
    # Imported here because it installs an event loop.
    from daphne.server import Server
    from twisted.internet import reactor

    def share() -> None:
        # An endpoint of Daphne cannot adopt an IPv6 socket.
        reactor.adoptStreamPort(listening.fileno(), listening.family, server.http_factory)

    for shared in (listening, checks):
        shared.setblocking(False)
    server = Server(
        get_default_application(),
        endpoints=[f"fd:fileno={checks.fileno()}"],
        ready_callable=share,
        ping_interval=PING_EVERY,
        ping_timeout=PING_WITHIN,
        websocket_connect_timeout=HANDSHAKE_WITHIN,
        websocket_handshake_timeout=HANDSHAKE_WITHIN,
        verbosity=0,
        server_name="",
    )
    start_watchdog(request_threads, seconds=settings.HANG_SECONDS)
    server.run()
