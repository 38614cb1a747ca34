"""The workflow: one durable run of a workflow class, identified by its key."""

from __future__ import annotations

from typing import Any, Self

import orjson
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from agents.models import Agent
from tenants.ids import uuid7
from tenants.models import OwnedModel, OwnedQuerySet


class WorkflowQuerySet(OwnedQuerySet):
    def over(self) -> Self:
        """Those that will not go on by themselves."""
        return self.filter(status__in=Workflow.OVER)


class Workflow(OwnedModel):
    """The columns from `status` to `last_seq` belong to the engine: its SQL writes them.

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

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    #: What the client calls it. The same key in a workspace is the same workflow.
    key = models.CharField(max_length=200)
    name = models.CharField(max_length=100)
    #: The version of the code that it began with and goes on with.
    version = models.PositiveIntegerField(default=1, db_default=1)
    params = models.JSONField(default=dict, db_default={})
    #: How often it was restarted: what an earlier life sent out is told apart by it.
    generation = models.PositiveIntegerField(default=0, db_default=0)
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    #: The key that started it: what its agents spend is charged to that key's budget too.
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
    #: When the attempt that runs has taken too long.
    deadline = models.DateTimeField(null=True, editable=False)
    #: When a timer must look at it: the end of a sleep, of a pause before a retry, of a wait.
    wake_at = models.DateTimeField(null=True, editable=False)
    #: The step that runs or waits.
    open_position = models.PositiveIntegerField(null=True, editable=False)
    queued_at = models.DateTimeField(db_default=Now(), editable=False)
    claimed_at = models.DateTimeField(null=True, editable=False)
    #: How often it was lost in a row without having got anywhere.
    recoveries = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    #: Given up after being lost again and again; only a person starts it anew.
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
            # For those who look after all that is not over, however many are.
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
