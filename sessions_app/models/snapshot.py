"""The snapshot: a summary that replaces the beginning of a session in the model's context."""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from sessions_app.models.run import Run
from sessions_app.models.session import Session
from tenants.models import OwnedModel, OwnedQuerySet


class ContextSnapshotQuerySet(OwnedQuerySet):
    def active(self) -> Self:
        """Snapshots that were not undone, newest first. A session's context begins with the newest."""
        return self.filter(undone_at=None).order_by("-id")


class ContextSnapshot(OwnedModel):
    """A summary of the events up to `last_seq`. It is never changed, only undone, once."""

    class Trigger(models.TextChoices):
        AUTO = "auto"
        OVERFLOW = "overflow"
        MANUAL = "manual"

    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_index=False, related_name="snapshots"
    )
    #: The run that made it.
    run = models.ForeignKey(
        Run,
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    previous = models.ForeignKey(
        "self", null=True, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    trigger = models.CharField(max_length=8, choices=Trigger)
    #: The events that the summary covers, including those of the previous snapshot.
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    first_kept_seq = models.BigIntegerField()
    #: Events up to `last_seq` that it does not cover: waiting messages, and the task of a turn.
    carried = ArrayField(models.BigIntegerField(), default=list)
    summary = models.TextField()
    model = models.CharField(max_length=200)
    tokens_before = models.PositiveIntegerField()
    tokens_after = models.PositiveIntegerField()
    #: Documents that were saved to memory before the summary was made.
    memory_ids = ArrayField(models.UUIDField(), default=list)
    undone_at = models.DateTimeField(null=True, editable=False)
    undone_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        db_index=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )

    objects = ContextSnapshotQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "agent_context_snapshots"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["session", "-id"], name="snapshot_by_session"),
            models.Index(
                fields=["session", "-id"], condition=Q(undone_at=None), name="snapshot_active"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(first_seq__gte=1, last_seq__gte=F("first_seq")),
                name="snapshot_stands_for_something",
            ),
        ]

    def __str__(self) -> str:
        return f"events {self.first_seq} to {self.last_seq}"
