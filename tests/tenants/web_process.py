"""The real application on the database of a test, with the cache of keys switched on."""

from __future__ import annotations

import os

from django.conf import settings

settings.DATABASES["default"]["NAME"] = os.environ["TEST_DATABASE"]
settings.KEY_CACHE_SECONDS = 3600

from config.asgi import application

__all__ = ["application"]
