"""The session: one conversation, one lane, one log."""

from __future__ import annotations

from typing import Self

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from agents.models import Agent, AgentVersion, Environment
from tenants.ids import uuid7
from tenants.models import OwnedModel, OwnedQuerySet


class SessionQuerySet(OwnedQuerySet):
    def active(self) -> Self:
        """Sessions that were not archived."""
        return self.filter(archived_at=None)


class Session(OwnedModel):
    """The columns from `last_seq` to `lease_expires` belong to the lane: its SQL writes them.

    No index holds a column that the lane writes, so that its updates stay on their page.
    """

    class Status(models.TextChoices):
        IDLE = "idle"
        RUNNING = "running"
        RESCHEDULING = "rescheduling"
        REQUIRES_ACTION = "requires_action"
        TERMINATED = "terminated"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.RESTRICT, related_name="sessions")
    agent_version = models.ForeignKey(AgentVersion, on_delete=models.RESTRICT, related_name="+")
    environment = models.ForeignKey(
        Environment, null=True, blank=True, on_delete=models.RESTRICT, related_name="+"
    )
    #: The agent that a builder builds here. Not in the metadata, which clients write.
    about = models.ForeignKey(
        Agent, null=True, blank=True, editable=False, on_delete=models.RESTRICT, related_name="+"
    )
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.RESTRICT, related_name="children"
    )
    session_key = models.CharField(max_length=200, null=True, blank=True)
    title = models.CharField(max_length=200, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    #: What it is to reach; `outcomes/stated.py` knows its shape.
    outcome = models.JSONField(null=True, blank=True)
    status = models.CharField(
        max_length=15, choices=Status, default=Status.IDLE, db_default=Status.IDLE
    )
    last_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: The last event that the active snapshot stands for.
    snapshot_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: Up to here the agent has saved to memory what matters.
    flushed_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: No compaction by itself until the log is longer: one failed, or was undone.
    compact_after_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: Strangers' words came into it by another way than its own calls; see `outside.py`.
    saw_outside = models.BooleanField(default=False, db_default=False, editable=False)
    lane_epoch = models.BigIntegerField(default=0, db_default=0, editable=False)
    lease_owner = models.UUIDField(null=True, editable=False)
    lease_expires = models.DateTimeField(null=True, editable=False)
    input_tokens = models.BigIntegerField(default=0, db_default=0, editable=False)
    output_tokens = models.BigIntegerField(default=0, db_default=0, editable=False)
    cost = models.DecimalField(
        max_digits=16, decimal_places=8, default=0, db_default=0, editable=False
    )
    active_at = models.DateTimeField(db_default=Now(), editable=False)
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = SessionQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "agent_sessions"
        ordering = ["-created_at"]
        indexes = [
            GinIndex(fields=["metadata"], name="session_by_metadata"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "session_key"], name="session_key_is_unique_in_its_agent"
            ),
            models.CheckConstraint(
                condition=Q(snapshot_seq__lte=models.F("last_seq")),
                name="session_snapshot_is_within_log",
            ),
        ]

    def __str__(self) -> str:
        return self.title or f"session {self.pk}"
