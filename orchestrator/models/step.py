"""The step: something a workflow does once, remembered by its name and how often the name was used."""

from __future__ import annotations

from typing import Any

import orjson
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from orchestrator.models.workflow import Workflow
from tenants.ids import uuid7


class Step(models.Model):
    """Written before its body runs, so that a crash cannot hide an attempt."""

    class Kind(models.TextChoices):
        DO = "do"
        SLEEP = "sleep"
        WAIT_FOR_EVENT = "wait_for_event"
        WAIT_FOR_APPROVAL = "wait_for_approval"
        RUN_SESSION = "run_session"
        SPAWN = "spawn"
        ROLLBACK = "rollback"

    class Status(models.TextChoices):
        RUNNING = "running"
        RETRYING = "retrying"
        WAITING = "waiting"
        COMPLETE = "complete"
        ERRORED = "errored"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # The unique (workflow, position) serves as its index. Not a constraint: its writers hold the row.
    workflow = models.ForeignKey(
        Workflow,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="steps",
    )
    #: In which order the workflow came to it. A replay must come to the same steps in this order.
    position = models.PositiveIntegerField()
    #: Which of the branches that run at the same time it belongs to; none is the trunk.
    branch = models.CharField(max_length=200, blank=True, default="", db_default="")
    name = models.CharField(max_length=200)
    nth = models.PositiveIntegerField(default=1, db_default=1)
    kind = models.CharField(max_length=20, choices=Kind, default=Kind.DO)
    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    #: JSON as text: the order of its keys is part of what the code returned.
    result = models.TextField(null=True)
    error = models.JSONField(null=True)
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    retry_at = models.DateTimeField(null=True)
    wake_at = models.DateTimeField(null=True)
    #: What it waits for: an event's type, an approval's title, a session's run, a child.
    detail = models.JSONField(null=True)
    run_id = models.UUIDField(null=True)
    child_id = models.UUIDField(null=True)
    started_at = models.DateTimeField(db_default=Now())
    #: When its newest attempt began.
    tried_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "workflow_steps"
        ordering = ["workflow", "position"]
        indexes = [
            models.Index(fields=["run_id"], condition=Q(run_id__isnull=False), name="step_by_run"),
            models.Index(
                fields=["child_id"], condition=Q(child_id__isnull=False), name="step_by_child"
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["workflow", "position"], name="step_has_a_place_of_its_own"
            ),
            models.CheckConstraint(
                condition=Q(result=None) | Q(status="complete"),
                name="step_with_a_result_is_complete",
            ),
        ]

    def __str__(self) -> str:
        return self.name if self.nth == 1 else f"{self.name} #{self.nth}"

    @property
    def output(self) -> Any:
        return None if self.result is None else orjson.loads(self.result)


class StepAttempt(models.Model):
    """An attempt at the body of a step that ended otherwise than well.

    The attempt that runs or that succeeded is told by the step itself, so that a step that works at
    once costs one row.
    """

    class Status(models.TextChoices):
        ERRORED = "errored"
        TIMED_OUT = "timed_out"
        #: Its worker died or was taken away from it: nobody knows how far it came.
        LOST = "lost"

    id = models.BigAutoField(primary_key=True)
    # Not a constraint: the workflow's row is held by who writes it.
    step = models.ForeignKey(
        Step, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="failures"
    )
    number = models.PositiveIntegerField()
    status = models.CharField(max_length=9, choices=Status)
    error = models.JSONField(null=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "workflow_attempts"
        ordering = ["step", "number"]
        constraints = [
            models.UniqueConstraint(fields=["step", "number"], name="attempt_is_counted_once"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}: {self.status}"
