"""Settings of the test suite: a separate cluster, short leases, fast password hashes."""

from __future__ import annotations

import os

from core import env

os.environ.setdefault("DATA_DIR", str(env.ROOT / "var" / "test"))

from config.settings.base import *
from config.settings.base import DATABASES, Q_CLUSTER

SECRET_KEY = "only-for-tests-" * 4
SALT_KEY = ["only-for-tests"]
ALLOWED_HOSTS = ["*"]
DEBUG = False
PUBLIC_URL = "http://testserver"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
# Several test runs may share the cluster, so each creates its own database.
DATABASES["default"]["TEST"] = {
    "NAME": f"test_{env.text('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
}
# Test cases roll back on one connection, and a pool would hide which test still holds it.
DATABASES["default"]["OPTIONS"].pop("pool")
DATABASES["default"]["CONN_MAX_AGE"] = 0
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
Q_CLUSTER["name"] = "test"
# Tests change rows directly and expect the next request to see it; the tests of the cache set it.
KEY_CACHE_SECONDS = 0
LEASE_SECONDS = 3
HEARTBEAT_SECONDS = 1
# Tests collect no static files. Without this the middleware warns about the missing folder.
WHITENOISE_AUTOREFRESH = True
