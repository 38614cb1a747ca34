"""Settings of `make dev`: debug pages, autoreload, scripts and styles from Vite's own server."""

from __future__ import annotations

from csp.constants import SELF, UNSAFE_INLINE

from config.settings.local import *
from config.settings.local import CONTENT_SECURITY_POLICY, DJANGO_VITE, TEMPLATES, VITE_PORT
from core import env
from core.logging import logging_config

DEBUG = True
AUTORELOAD = True
WEB_PROCESSES = 1
# A worker that a reload interrupts gives its run back soon.
LEASE_SECONDS = env.seconds("LEASE_SECONDS", 5)
HEARTBEAT_SECONDS = env.seconds("HEARTBEAT_SECONDS", 1)

# Without the cached loader, a changed template is seen at once.
TEMPLATES[0]["APP_DIRS"] = False
TEMPLATES[0]["OPTIONS"]["loaders"] = [
    "django.template.loaders.filesystem.Loader",
    "django.template.loaders.app_directories.Loader",
]

DJANGO_VITE["default"] |= {
    "dev_mode": True,
    "dev_server_host": "127.0.0.1",
    "dev_server_port": VITE_PORT,
}
_VITE = f"//127.0.0.1:{VITE_PORT}"
DIRECTIVES: dict[str, object] = CONTENT_SECURITY_POLICY["DIRECTIVES"]
DIRECTIVES |= {
    "script-src": [SELF, f"http:{_VITE}"],
    # Vite adds styles as elements, without a nonce.
    "style-src": [SELF, UNSAFE_INLINE, f"http:{_VITE}"],
    "connect-src": [SELF, f"http:{_VITE}", f"ws:{_VITE}"],
}

# Lines for people, although the programs write to files.
logging_config(level=env.text("LOG_LEVEL", "INFO"), terminal=True)
