"""What goes out to people and services: mail, webhooks, the inbox, web searches."""

from __future__ import annotations

from config import env

# ── Mail ─────────────────────────────────────────────────────────────────────
EMAIL_BACKEND = (
    "django.core.mail.backends.smtp.EmailBackend"
    if env.text("EMAIL_HOST")
    else "django.core.mail.backends.filebased.EmailBackend"
)
EMAIL_FILE_PATH = env.data_dir() / "mail"
EMAIL_HOST = env.text("EMAIL_HOST")
EMAIL_PORT = env.number("EMAIL_PORT", 587)
EMAIL_HOST_USER = env.text("EMAIL_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_PASSWORD")
#: A mail server that does not answer must not hold whoever sends.
EMAIL_TIMEOUT = env.number("EMAIL_TIMEOUT", 20)
EMAIL_USE_TLS = env.flag("EMAIL_TLS", default=True)
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", "Switchyard <switchyard@localhost>")
#: Mails that the agents of one workspace may send in an hour.
EMAILS_PER_HOUR = env.number("EMAILS_PER_HOUR", 60)

# ── Webhooks and inbox ───────────────────────────────────────────────────────
#: An endpoint that only failed for so long is switched off.
WEBHOOK_GIVE_UP_DAYS = env.number("WEBHOOK_GIVE_UP_DAYS", 3)
WEBHOOK_KEEP_DAYS = env.number("WEBHOOK_KEEP_DAYS", 7)
INBOX_KEEP_DAYS = env.number("INBOX_KEEP_DAYS", 180)

# ── Searching the web ────────────────────────────────────────────────────────
#: brave, serper or searxng; the last needs no key but an address.
WEB_SEARCH_PROVIDER = env.text("WEB_SEARCH_PROVIDER").lower()
WEB_SEARCH_KEY = env.text("WEB_SEARCH_KEY")
WEB_SEARCH_URL = env.text("WEB_SEARCH_URL")
