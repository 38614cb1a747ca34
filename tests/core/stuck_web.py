"""A web process whose connections or threads can be used up: `-m tests.core.stuck_web SECONDS`."""

from __future__ import annotations

import os
import socket
import sys
import threading
from typing import Any

import django
from django.conf import settings

database = settings.DATABASES["default"]
database["NAME"] = os.environ["TEST_DATABASE"]
database["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 2, "timeout": 20}
settings.ROOT_URLCONF = "tests.core.stuck_web"
settings.MIDDLEWARE = []
settings.HANG_SECONDS = float(sys.argv[1]) if sys.argv[1:] else 0.0
settings.ASGI_APPLICATION = "tests.core.stuck_web.application"
django.setup(set_prefix=False)

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import path

from core.server import OneThreadHandler, request_threads


def lose_connections(request: HttpRequest) -> HttpResponse:
    """Borrow all connections for ever."""
    pool: Any = connection.pool  # type: ignore[attr-defined]
    pool.open()
    for _ in range(2):
        pool.getconn()
    return HttpResponse("lost")


def lose_threads(request: HttpRequest) -> HttpResponse:
    """Use all threads for ever."""
    for _ in range(request_threads._max_workers):
        request_threads.submit(threading.Event().wait)
    return HttpResponse("lost")


def nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse("still here")


urlpatterns = [
    path("connections", lose_connections),
    path("threads", lose_threads),
    path("nothing", nothing),
]
application = OneThreadHandler()

if __name__ == "__main__":
    from orchestrator.launcher.web import serve

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)  # noqa: T201
    serve(listening, checks=socket.create_server(("127.0.0.1", 0)))
