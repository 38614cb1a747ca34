"""Settings for a deployment. It refuses to start with a weak secret or an open host list."""

from __future__ import annotations

from config.settings.base import *
from core import env
from core.exceptions import CannotStart

SECRET_KEY = env.text("SECRET_KEY")
SALT_KEY = env.strings("SALT_KEYS")
ALLOWED_HOSTS = env.strings("ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = env.strings("CSRF_TRUSTED_ORIGINS")

if len(SECRET_KEY) < 50:
    raise CannotStart("Set SECRET_KEY to at least 50 random characters.")
if not SALT_KEY:
    raise CannotStart("Set SALT_KEYS to one or more random strings, newest first.")
if not ALLOWED_HOSTS or "*" in ALLOWED_HOSTS:
    raise CannotStart("Set ALLOWED_HOSTS to the host names of this server, not '*'.")

# Links in mails must lead here, whatever host a request names.
PUBLIC_URL = env.text("PUBLIC_URL") or f"https://{ALLOWED_HOSTS[0].lstrip('.')}"
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
