"""The sandbox minute: one minute of one sandbox that was charged, so that it never is again."""

from __future__ import annotations

from django.db import models

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel


class SandboxMinute(OwnedModel):
    """Written by `sandbox_charge` with the line of the ledger. Kept for some days only."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    #: A container's id, or what else runs: `call:ID`, `terminal:SESSION`.
    sandbox = models.CharField(max_length=100)
    minute = models.DateTimeField()

    class Meta:
        db_table = "sandbox_minutes"
        ordering = ["-minute"]
        indexes = [models.Index(fields=["minute"], name="sandbox_minute_by_time")]
        constraints = [
            models.UniqueConstraint(
                fields=["sandbox", "minute"], name="sandbox_minute_is_charged_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.sandbox} at {self.minute:%H:%M}"
