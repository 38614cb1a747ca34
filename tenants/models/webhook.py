"""Where a workspace wants to be told what happens, and each telling."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from encrypted_fields.fields import EncryptedTextField

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel
from tenants.models.workspace import Workspace


class Webhook(OwnedModel):
    """An address that is told of events. SQL reads `workspace`, `active` and `events`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    url = models.CharField(max_length=2000)
    #: Event types, with `*` for any run of characters.
    events = ArrayField(models.CharField(max_length=80))
    secret = EncryptedTextField(editable=False)
    #: Signs too until then, so that a receiver can change over without losing anything.
    old_secret = EncryptedTextField(null=True, editable=False)
    old_secret_until = models.DateTimeField(null=True, editable=False)
    description = models.CharField(max_length=200, blank=True)
    active = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=300, blank=True, editable=False)
    #: Failed attempts since the last success, and since when.
    failures = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    #: Nothing is sent before: it failed, or asked for a pause.
    quiet_until = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "webhooks"
        ordering = ["-created_at"]
        indexes = [
            models.Index(
                fields=["workspace"], condition=Q(active=True), name="webhook_active_in_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.url


class WebhookDelivery(OwnedModel):
    """One event for one endpoint. Its id is the `webhook-id`, the same at every attempt."""

    class Status(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # Whoever writes events pays for every index here, so there are only those below.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    webhook = models.ForeignKey(
        Webhook, on_delete=models.CASCADE, db_index=False, related_name="deliveries"
    )
    type = models.CharField(max_length=80)
    body = models.JSONField()
    status = models.CharField(
        max_length=9, choices=Status, default=Status.PENDING, db_default=Status.PENDING
    )
    #: Counted when an attempt begins.
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    #: When it is due. While an attempt runs: when that counts as lost.
    next_attempt_at = models.DateTimeField(null=True)
    #: When the newest attempt began. Only its holder may write an outcome.
    attempted_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    response_status = models.PositiveSmallIntegerField(null=True)
    #: The beginning of the answer, or why there was none.
    response_snippet = models.CharField(max_length=1000, blank=True, default="", db_default="")

    class Meta:
        db_table = "webhook_deliveries"
        ordering = ["-created_at"]
        indexes = [
            models.Index(
                fields=["webhook", "next_attempt_at"],
                condition=Q(status="pending"),
                name="webhook_delivery_by_due_time",
            ),
            models.Index(fields=["webhook", "-created_at"], name="webhook_delivery_log"),
            models.Index(fields=["created_at"], name="webhook_delivery_by_age"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=~Q(status="pending") | Q(next_attempt_at__isnull=False),
                name="webhook_delivery_pending_has_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.type}"
