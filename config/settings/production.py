"""A real deployment: refuses to start with a default secret or an open host list."""

from __future__ import annotations

from config import env
from config.faults import CannotStart
from config.settings.base import *

SECRET_KEY = env.text("SECRET_KEY")
SALT_KEY = env.words("SALT_KEYS")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")

if len(SECRET_KEY) < 50:
    raise CannotStart("Set SECRET_KEY to at least 50 random characters.")
if not SALT_KEY:
    raise CannotStart("Set SALT_KEYS to one or more random words, newest first.")
if not ALLOWED_HOSTS or "*" in ALLOWED_HOSTS:
    raise CannotStart("Set ALLOWED_HOSTS to the names this server answers to, not '*'.")

DEBUG = False
SECURE_SSL_REDIRECT = env.flag("SECURE_SSL_REDIRECT", default=True)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_REDIRECT_EXEMPT = [r"^api/v1/health/$"]
SECURE_HSTS_SECONDS = 60 * 60 * 24 * 365
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
SILENCED_SYSTEM_CHECKS: list[str] = []
