"""Rows that the server keeps for itself: idempotent responses and process heartbeats."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from tenants.models.accounts import Workspace


class IdempotentAnswer(models.Model):
    """The response to a request with an Idempotency-Key, kept for a day.

    `status` is null while the first request is running.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    key_digest = models.CharField(max_length=64)
    body_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    content_type = models.CharField(max_length=80, default="application/json")
    body = models.BinaryField(default=bytes)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "key_digest"], name="answer_is_one_per_key"
            ),
        ]

    def __str__(self) -> str:
        return f"answer {self.key_digest[:8]}"


class Pulse(models.Model):
    """The last heartbeat of a process."""

    kind = models.CharField(max_length=16)
    host = models.CharField(max_length=80)
    pid = models.PositiveIntegerField()
    at = models.DateTimeField()

    class Meta:
        db_table = "process_pulses"
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "host", "pid"], name="pulse_is_one_per_process"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.pid}"
