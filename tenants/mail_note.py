"""Where mail goes, said plainly when it goes nowhere."""

from __future__ import annotations

from django.conf import settings


def mail_note() -> str:
    """Empty when a mail server is set; else where the message can be read."""
    backend = settings.EMAIL_BACKEND
    if backend.endswith("filebased.EmailBackend"):
        return f"No mail server is set, so the message was written to {settings.EMAIL_FILE_PATH} on the server."
    if backend.endswith("console.EmailBackend"):
        return "No mail server is set, so the message was written to the server's console."
    return ""
