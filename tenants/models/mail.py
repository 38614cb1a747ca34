"""A mail that an agent sent: counted, so that nobody's address is flooded."""

from __future__ import annotations

from django.db import models

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel


class SentMail(OwnedModel):
    """Written before the mail goes out, so that a crash cannot hide one."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    recipient = models.EmailField(max_length=320)
    subject = models.CharField(max_length=200)
    session_id = models.UUIDField(null=True)
    agent_id = models.UUIDField(null=True)

    class Meta:
        db_table = "sent_mails"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["workspace", "created_at"], name="sent_mail_by_time")]

    def __str__(self) -> str:
        return f"{self.subject} to {self.recipient}"
