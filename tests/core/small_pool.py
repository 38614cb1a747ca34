"""The real application on the database of a test, with few connections and limits of the environment."""

from __future__ import annotations

import os

from django.conf import settings

POOL = int(os.environ["POOL"])

database = settings.DATABASES["default"]
database["NAME"] = os.environ["TEST_DATABASE"]
database["OPTIONS"]["pool"] = {"min_size": 1, "max_size": POOL, "timeout": 20}
settings.DATABASE_POOL = POOL
settings.KEY_CACHE_SECONDS = 3600
settings.ALLOWED_HOSTS = ["*"]

from config.asgi import application
from core import request_limits, throttling

for module in (request_limits, throttling):
    for name in vars(module):
        if name in os.environ:
            setattr(module, name, float(os.environ[name]))

if "SLOW_LISTS" in os.environ:
    from django.db import connection

    from agents.api.agents import AgentViewSet

    quick_list = AgentViewSet.list

    def slow_list(self, request, *args, **kwargs):
        """Hold a database connection for a while, as a slow statement does."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(%s)", [float(os.environ["SLOW_LISTS"])])
        return quick_list(self, request, *args, **kwargs)

    setattr(AgentViewSet, "list", slow_list)  # noqa: B010

__all__ = ["application"]
