"""The run: one turn of a session, queued, running or finished."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from sessions_app.models.session import Session
from tenants.models import OwnedModel


class Run(OwnedModel):
    """A row of the run queue. Only SQL functions write it while it waits or runs."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"
        DEAD = "dead"

    class OnBusy(models.TextChoices):
        FOLLOWUP = "followup"
        COLLECT = "collect"
        STEER = "steer"
        INTERRUPT = "interrupt"
        REJECT = "reject"

    class Purpose(models.TextChoices):
        TURN = "turn"
        COMPACT = "compact"

    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_index=False, related_name="runs"
    )
    status = models.CharField(
        max_length=9, choices=Status, default=Status.QUEUED, db_default=Status.QUEUED
    )
    on_busy = models.CharField(
        max_length=9, choices=OnBusy, default=OnBusy.FOLLOWUP, db_default=OnBusy.FOLLOWUP
    )
    #: A run answers messages or compacts the context. Both hold the lane.
    purpose = models.CharField(
        max_length=7, choices=Purpose, default=Purpose.TURN, db_default=Purpose.TURN
    )
    #: The options of a requested compaction.
    wishes = models.JSONField(default=dict, db_default={}, editable=False)
    #: Continues a turn that waited. Such a run comes before every queued message.
    resumes = models.BooleanField(default=False, db_default=False)
    priority = models.SmallIntegerField(default=0, db_default=0)
    #: The order among runs of equal priority: the seq of a message, or a value in between if moved.
    rank = models.FloatField(default=0, db_default=0)
    #: The messages it answers. More may join while it waits (collect) or runs (steer).
    message_seqs = ArrayField(models.BigIntegerField(), default=list)
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    #: How often it was lost in a row without progress.
    losses = models.PositiveIntegerField(default=0, db_default=0)
    epoch = models.BigIntegerField(null=True, editable=False)
    claimed_seq = models.BigIntegerField(null=True, editable=False)
    not_before = models.DateTimeField(null=True, blank=True)
    deadline = models.DateTimeField(null=True, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    finished_at = models.DateTimeField(null=True, editable=False)
    stop_reason = models.CharField(max_length=24, blank=True, default="", db_default="")
    result = models.JSONField(null=True, editable=False)
    error = models.JSONField(null=True, editable=False)
    usage = models.JSONField(default=dict, db_default={}, editable=False)
    #: The key that sent its message, whose budget pays.
    key_id = models.UUIDField(null=True, editable=False)
    #: The effective tool policy of this run, with the rule that decided for each tool.
    policy = models.JSONField(null=True, editable=False)

    class Meta:
        db_table = "agent_run_queue"
        ordering = ["-created_at"]
        indexes = [
            models.Index(
                fields=["session", "-resumes", "-priority", "rank", "id"],
                condition=Q(status="queued"),
                name="run_by_turn",
            ),
            models.Index(fields=["session", "-created_at"], name="run_by_session"),
            models.Index(
                fields=["not_before"], condition=Q(status="queued"), name="run_by_due_time"
            ),
            models.Index(
                fields=["session"],
                condition=Q(status__in=["failed", "dead"]),
                name="run_failed_by_session",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["session"],
                condition=Q(status="running"),
                name="run_is_alone_in_its_lane",
            ),
            models.CheckConstraint(
                condition=~Q(status="running") | Q(epoch__isnull=False),
                name="run_in_progress_has_an_epoch",
            ),
            models.CheckConstraint(
                condition=Q(finished_at=None) | Q(finished_at__gte=F("created_at")),
                name="run_ends_after_it_begins",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} run {self.pk}"
