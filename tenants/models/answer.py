"""The first answer to a request that carried an Idempotency-Key."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from tenants.models.workspace import Workspace


class IdempotentAnswer(models.Model):
    """Kept for a day. `status` is null while the first request is still being answered."""

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
