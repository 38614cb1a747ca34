"""Settings for one machine: secrets are generated on first use and kept in the data directory."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from config.settings.base import *
from config.settings.base import DATA_DIR, HOST, PORT
from core import env
from core.exceptions import CannotStart

LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def load_or_create_secret(path: Path) -> str:
    """Return the secret in a file, which is created on first use and readable by its owner only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Linking makes the file appear complete, and lets the first of two processes win.
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            fresh.touch(mode=0o600)
            fresh.write_text(secrets.token_urlsafe(48))
            with suppress(FileExistsError):
                os.link(fresh, path)
            fresh.unlink()
        return path.read_text()
    except OSError as error:
        raise CannotStart(
            f"{path.parent} cannot be written ({error.strerror}). Set DATA_DIR to a writable folder."
        ) from None


SECRET_KEY = env.text("SECRET_KEY") or load_or_create_secret(DATA_DIR / "secret_key")
SALT_KEY = env.strings("SALT_KEYS") or [load_or_create_secret(DATA_DIR / "salt_key")]
DEBUG = False
ALLOWED_HOSTS = env.strings("ALLOWED_HOSTS") or sorted({*LOOPBACK, "[::1]", HOST})
if HOST not in LOOPBACK and not env.text("PUBLIC_URL") and env.strings("ALLOWED_HOSTS"):
    # Other machines know this one by a name, not by the address that it listens on.
    PUBLIC_URL = f"http://{ALLOWED_HOSTS[0].lstrip('.')}:{PORT}"
CSRF_TRUSTED_ORIGINS = env.strings("CSRF_TRUSTED_ORIGINS")
# Other machines must use HTTPS, so that cookies are encrypted, unless INSECURE_HTTP is set.
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HOST not in LOOPBACK and not env.flag("INSECURE_HTTP")
