"""Failed sign-ins, so that guessing is slowed on every node alike."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class SignInAttempt(models.Model):
    """One wrong answer, under a digest of the address and of the client's network address."""

    email_digest = models.CharField(max_length=64)
    client = models.CharField(max_length=64)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["email_digest", "at"], name="attempt_by_email"),
            models.Index(fields=["client", "at"], name="attempt_by_client"),
        ]

    def __str__(self) -> str:
        return f"attempt at {self.at:%F %T}"
