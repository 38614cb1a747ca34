"""One machine, one command: the secret is made on first use and kept in the data folder."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from config import env
from config.faults import CannotStart
from config.settings.base import *
from config.settings.base import DATA_DIR, HOST

LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def kept_secret(path: Path) -> str:
    """The secret in a file, made on first use; only the owner can read it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Whole or not at all, and the first of two processes wins.
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            fresh.touch(mode=0o600)
            fresh.write_text(secrets.token_urlsafe(48))
            with suppress(FileExistsError):
                os.link(fresh, path)
            fresh.unlink()
        return path.read_text()
    except OSError as error:
        raise CannotStart(
            f"{path.parent} cannot be written ({error.strerror}). Set DATA_DIR to a folder of yours."
        ) from None


SECRET_KEY = env.text("SECRET_KEY") or kept_secret(DATA_DIR / "secret_key")
SALT_KEY = env.words("SALT_KEYS") or [kept_secret(DATA_DIR / "salt_key")]
DEBUG = False
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS") or sorted({*LOOPBACK, "[::1]", HOST})
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")
# Beyond this machine a cookie must not travel in the clear, unless somebody says so.
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HOST not in LOOPBACK and not env.flag("INSECURE_HTTP")
