"""Inbox items, webhooks with their deliveries, and sent e-mails."""

from __future__ import annotations

from typing import Self
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from encrypted_fields.fields import EncryptedTextField

from tenants.models.accounts import OwnedModel, OwnedQuerySet, Workspace


class InboxQuerySet(OwnedQuerySet):
    def for_person(self, user_id: UUID | None) -> Self:
        """Return the items of a user and those of the whole workspace, with `is_read`."""
        reads = InboxRead.objects.filter(item=OuterRef("pk"), user=user_id)
        mine = self.filter(Q(user=None) | Q(user=user_id)) if user_id else self.filter(user=None)
        return mine.annotate(is_read=Exists(reads))


class InboxItem(OwnedModel):
    class Kind(models.TextChoices):
        MESSAGE = "message"
        NOTICE = "notice"
        APPROVAL = "approval"
        WARNING = "warning"

    #: Null means every member of the workspace.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
    )
    kind = models.CharField(max_length=20, choices=Kind, default=Kind.NOTICE)
    title = models.CharField(max_length=200)
    #: Untrusted Markdown, as agents write it.
    body = models.TextField(blank=True)
    #: A path within the product.
    link = models.CharField(max_length=500, blank=True)
    # Apps to the right own these rows; an item outlives them.
    session_id = models.UUIDField(null=True, blank=True)
    agent_id = models.UUIDField(null=True, blank=True)
    #: A second item with the same key is not added. NULLs never collide.
    dedupe_key = models.CharField(max_length=120, null=True, editable=False)

    objects = InboxQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "inbox_items"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["workspace", "-created_at"], name="inbox_newest_first")]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "dedupe_key"], name="inbox_dedupe_key_is_unique"
            ),
        ]

    def __str__(self) -> str:
        return self.title


class InboxRead(models.Model):
    """Records that a user has read an item."""

    item = models.ForeignKey(InboxItem, on_delete=models.CASCADE, related_name="reads")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    read_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "inbox_reads"
        constraints = [
            models.UniqueConstraint(fields=["item", "user"], name="inbox_item_is_read_once"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} read {self.item_id}"


class Webhook(OwnedModel):
    """An endpoint that receives events. SQL reads `workspace`, `active` and `events`."""

    url = models.CharField(max_length=2000)
    #: Event types, where `*` matches any characters.
    events = ArrayField(models.CharField(max_length=80))
    secret = EncryptedTextField(editable=False)
    #: Also signs until then, so that the receiver can change to the new secret.
    old_secret = EncryptedTextField(null=True, editable=False)
    old_secret_until = models.DateTimeField(null=True, editable=False)
    description = models.CharField(max_length=200, blank=True)
    active = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=300, blank=True, editable=False)
    #: The number of failed attempts since the last success, and when the first was.
    failures = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    #: Nothing is sent until then, because the endpoint failed or asked for a pause.
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
    """One event for one endpoint. Its id is the `webhook-id` of every attempt."""

    class Status(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        FAILED = "failed"

    # Every write of an event pays for each index, so there are only those below.
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
    #: Incremented when an attempt begins.
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    #: When the next attempt is due. During an attempt, when it counts as lost.
    next_attempt_at = models.DateTimeField(null=True)
    #: When the latest attempt began. Only that attempt's sender may write the outcome.
    attempted_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    response_status = models.PositiveSmallIntegerField(null=True)
    #: The beginning of the response, or why there was none.
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


class SentMail(OwnedModel):
    """An e-mail of an agent, or an invitation. It is counted towards a limit per hour.

    The row is written before sending, so that a crash cannot hide it.
    """

    class Kind(models.TextChoices):
        AGENT = "agent"
        INVITATION = "invitation"

    kind = models.CharField(max_length=10, choices=Kind, default=Kind.AGENT, db_default=Kind.AGENT)
    recipient = models.EmailField(max_length=320)
    subject = models.CharField(max_length=200)
    session_id = models.UUIDField(null=True)
    agent_id = models.UUIDField(null=True)

    class Meta:
        db_table = "sent_mails"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["workspace", "created_at"], name="sent_mail_by_time"),
            models.Index(
                fields=["created_by", "created_at"],
                condition=models.Q(kind="invitation"),
                name="invitation_mail_by_person",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} to {self.recipient}"
