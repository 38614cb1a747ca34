"""What agents and the product tell people, and who has read it."""

from __future__ import annotations

from typing import Self
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel, OwnedQuerySet


class InboxQuerySet(OwnedQuerySet):
    def for_person(self, user_id: UUID | None) -> Self:
        """What this person may read: their own and everybody's, with `is_read`."""
        reads = InboxRead.objects.filter(item=OuterRef("pk"), user=user_id)
        mine = self.filter(Q(user=None) | Q(user=user_id)) if user_id else self.filter(user=None)
        return mine.annotate(is_read=Exists(reads))


class InboxItem(OwnedModel):
    class Kind(models.TextChoices):
        MESSAGE = "message"
        NOTICE = "notice"
        APPROVAL = "approval"
        WARNING = "warning"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    #: Null: for everybody in the workspace.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
    )
    kind = models.CharField(max_length=20, choices=Kind, default=Kind.NOTICE)
    title = models.CharField(max_length=200)
    #: Markdown. Agents write it, so it is untrusted.
    body = models.TextField(blank=True)
    #: A path within the product.
    link = models.CharField(max_length=500, blank=True)
    # Apps to the right own these rows; an item outlives them.
    session_id = models.UUIDField(null=True, blank=True)
    agent_id = models.UUIDField(null=True, blank=True)
    #: Putting the same thing in twice leaves one. NULLs never collide.
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
    """This person has read this item."""

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
