"""The workflow: one durable run of a workflow class, identified by its key."""

from __future__ import annotations

from typing import Any, Self

import orjson
from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from agents.models import Agent
from tenants.models import OwnedModel, OwnedQuerySet


class WorkflowQuerySet(OwnedQuerySet):
    def over(self) -> Self:
        """Filter those that have ended."""
        return self.filter(status__in=Workflow.OVER)


class Workflow(OwnedModel):
    """One run of a workflow. The engine's SQL writes the columns from `status` to `last_seq`.

    No index holds a column that a step writes, so that its updates stay on their page.
    """

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        WAITING = "waiting"
        WAITING_APPROVAL = "waiting_approval"
        PAUSED = "paused"
        COMPLETE = "complete"
        ERRORED = "errored"
        TERMINATED = "terminated"

    OVER = (Status.COMPLETE, Status.ERRORED, Status.TERMINATED)
    WAITS = (Status.WAITING, Status.WAITING_APPROVAL)

    #: The client's name for it. The same key in a workspace is the same workflow.
    key = models.CharField(max_length=200)
    name = models.CharField(max_length=100)
    #: The version of the code that it began with and continues with.
    version = models.PositiveIntegerField(default=1, db_default=1)
    params = models.JSONField(default=dict, db_default={})
    #: How often it was restarted; it tells apart what earlier generations sent out.
    generation = models.PositiveIntegerField(default=0, db_default=0)
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    #: The API key that started it; what its agents spend is charged to that key's budget too.
    key_id = models.UUIDField(null=True, editable=False)
    priority = models.SmallIntegerField(default=0, db_default=0)
    #: At most `concurrency_limit` workflows of a workspace with the same key run at once.
    concurrency_key = models.CharField(max_length=200, blank=True, default="", db_default="")
    concurrency_limit = models.PositiveIntegerField(null=True, blank=True)

    status = models.CharField(
        max_length=16, choices=Status, default=Status.QUEUED, db_default=Status.QUEUED
    )
    epoch = models.BigIntegerField(default=0, db_default=0, editable=False)
    lease_owner = models.UUIDField(null=True, editable=False)
    lease_expires = models.DateTimeField(null=True, editable=False)
    #: When the running attempt times out.
    deadline = models.DateTimeField(null=True, editable=False)
    #: When its timer is due: the end of a sleep, of a pause before a retry, or of a wait.
    wake_at = models.DateTimeField(null=True, editable=False)
    #: The step that runs or waits.
    open_position = models.PositiveIntegerField(null=True, editable=False)
    queued_at = models.DateTimeField(db_default=Now(), editable=False)
    claimed_at = models.DateTimeField(null=True, editable=False)
    #: How often it was lost in a row without progress.
    recoveries = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    #: Given up after being lost too often; only a person can restart it.
    is_dead = models.BooleanField(default=False, db_default=False, editable=False)
    pause_requested = models.BooleanField(default=False, db_default=False, editable=False)
    paused_at = models.DateTimeField(null=True, editable=False)
    #: Why it is being rolled back, while it is.
    undoing = models.JSONField(null=True, editable=False)
    progress = models.JSONField(null=True, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    finished_at = models.DateTimeField(null=True, editable=False)
    #: JSON as text: the order of its keys is part of what the code returned.
    result = models.TextField(null=True, editable=False)
    error = models.JSONField(null=True, editable=False)
    last_seq = models.BigIntegerField(default=0, db_default=0, editable=False)

    objects = WorkflowQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "workflows"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["workspace", "-created_at"], name="workflow_by_age"),
            models.Index(fields=["workspace", "claimed_at"], name="workflow_by_turn_taken"),
            models.Index(
                fields=["workspace", "-priority", "queued_at", "id"],
                condition=Q(status="queued"),
                name="workflow_by_turn",
            ),
            models.Index(
                fields=["workspace"], condition=Q(status="running"), name="workflow_in_progress"
            ),
            models.Index(
                fields=["wake_at"],
                condition=Q(status__in=["waiting", "waiting_approval"]),
                name="workflow_by_due_time",
            ),
            # For duties that look at everything that is not over, however much is.
            models.Index(
                fields=["status"],
                condition=Q(
                    status__in=["queued", "running", "waiting", "waiting_approval", "paused"]
                ),
                name="workflow_is_alive",
            ),
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False),
                name="workflow_by_end",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "key"], name="workflow_key_is_unique_in_its_workspace"
            ),
            models.CheckConstraint(
                condition=~Q(status="running") | Q(lease_owner__isnull=False),
                name="workflow_in_progress_has_a_holder",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.key}"

    @property
    def is_over(self) -> bool:
        return self.status in self.OVER

    @property
    def output(self) -> Any:
        return None if self.result is None else orjson.loads(self.result)


class WorkflowEventQuerySet(models.QuerySet):
    def after(self, seq: int) -> Self:
        """Filter by seq, with the workflow's name, which frames of canvas runs need."""
        named = self.annotate(workflow_name=F("workflow__name"))
        return named.filter(seq__gt=seq).order_by("seq")


class WorkflowEvent(models.Model):
    """An event of a workflow's log, written under the workflow's lock: seq has no gaps."""

    class Type(models.TextChoices):
        STATUS = "status"
        STEP = "step"
        PROGRESS = "progress"
        LOG = "log"
        OUTPUT = "output"

    id = models.BigAutoField(primary_key=True)
    # The unique (workflow, seq) is its index. No constraint: writers hold the workflow's row.
    workflow = models.ForeignKey(
        Workflow,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="events",
    )
    seq = models.BigIntegerField()
    type = models.CharField(max_length=8, choices=Type)
    payload = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())

    objects = WorkflowEventQuerySet.as_manager()

    class Meta:
        db_table = "workflow_events"
        ordering = ["workflow", "seq"]
        constraints = [
            models.UniqueConstraint(
                fields=["workflow", "seq"], name="workflow_event_seq_is_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} #{self.seq}"


class WorkflowSignal(models.Model):
    """An event sent to a workflow. It waits until a step asks for its type; the oldest goes first."""

    id = models.BigAutoField(primary_key=True)
    # The unique (workflow, seq) is its index.
    workflow = models.ForeignKey(
        Workflow, on_delete=models.CASCADE, db_index=False, related_name="signals"
    )
    #: The seq of the log entry that says when it came.
    seq = models.BigIntegerField()
    type = models.CharField(max_length=100)
    #: JSON as text, like results.
    payload = models.TextField()
    #: The position of the step that took it.
    taken_by = models.PositiveIntegerField(null=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "workflow_signals"
        ordering = ["workflow", "seq"]
        indexes = [
            models.Index(
                fields=["workflow", "type", "seq"],
                condition=Q(taken_by=None),
                name="signal_by_turn",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["workflow", "seq"], name="signal_came_once"),
        ]

    def __str__(self) -> str:
        return f"{self.type} #{self.seq}"
