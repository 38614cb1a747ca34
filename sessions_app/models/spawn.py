"""The sub-agent: a task that one session gave to another, and whether its result was delivered."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from sessions_app.models.session import Session
from tenants.models import OwnedModel


class SubagentSpawn(OwnedModel):
    """Execution and delivery are tracked separately.

    `status` follows the child's runs by a database trigger, in the commit that ends them.
    `delivered_at` is set in the commit that writes the result into the parent's log.
    """

    class Kind(models.TextChoices):
        SPAWN = "spawn"
        #: A message to an existing session whose reply is awaited.
        SEND = "send"

    class Status(models.TextChoices):
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"

    kind = models.CharField(max_length=5, choices=Kind, default=Kind.SPAWN)
    parent_session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="spawns")
    child_session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="spawned_by")
    parent_run_id = models.UUIDField(null=True)
    #: The call that created it. The call finds this row if it is repeated after a crash.
    tool_use_id = models.CharField(max_length=64)
    child_run_id = models.UUIDField(null=True)
    task = models.TextField(blank=True)
    depth = models.PositiveSmallIntegerField(default=1)
    #: Whether the parent's call stays open until the result is delivered.
    waits = models.BooleanField(default=True)
    status = models.CharField(max_length=9, choices=Status, default=Status.RUNNING)
    stop_reason = models.CharField(max_length=24, blank=True, default="", db_default="")
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    #: Its parent was stopped, so it must stop too.
    stop_asked = models.BooleanField(default=False, db_default=False)
    expires_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    delivered_seq = models.BigIntegerField(null=True)

    class Meta:
        db_table = "subagent_spawns"
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(
                fields=["child_session"], condition=Q(status="running"), name="spawn_under_way"
            ),
            models.Index(
                fields=["finished_at"],
                condition=Q(delivered_at=None, finished_at__isnull=False),
                name="spawn_to_deliver",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["parent_session", "tool_use_id"], name="spawn_is_one_per_call"
            ),
            models.CheckConstraint(
                condition=Q(status="running") | Q(finished_at__isnull=False),
                name="spawn_that_ended_says_when",
            ),
            models.CheckConstraint(
                condition=Q(delivered_at=None) | Q(finished_at__isnull=False),
                name="spawn_is_delivered_after_it_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.kind} {self.pk}"
