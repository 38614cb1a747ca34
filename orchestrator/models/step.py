"""The step: something a workflow does once, identified by its name and how often the name was used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core.ids import uuid7
from orchestrator.models.workflow import Workflow


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
    # The unique (workflow, position) is its index. No constraint: writers hold the workflow's row.
    workflow = models.ForeignKey(
        Workflow,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="steps",
    )
    #: The order in which the workflow reached it. A replay must reach the same steps in this order.
    position = models.PositiveIntegerField()
    #: The branch it belongs to; empty for the trunk.
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
    #: What it waits for: an event's type, an approval's title, a session's run or a child.
    detail = models.JSONField(null=True)
    run_id = models.UUIDField(null=True)
    child_id = models.UUIDField(null=True)
    started_at = models.DateTimeField(db_default=Now())
    #: When its latest attempt began.
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
    """A failed attempt at a step.

    The attempt that runs or succeeded is stored in the step itself, so that a step that succeeds at
    once is one row.
    """

    class Status(models.TextChoices):
        ERRORED = "errored"
        TIMED_OUT = "timed_out"
        #: The worker died or lost the workflow: it is unknown how far the attempt got.
        LOST = "lost"

    id = models.BigAutoField(primary_key=True)
    # No constraint: writers hold the workflow's row.
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


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt at a step, whether it failed, runs or succeeded."""

    number: int
    status: str
    error: dict[str, Any] | None
    started_at: datetime
    finished_at: datetime | None


def attempts_of(step: Step) -> list[Attempt]:
    """Return all attempts in order. Prefetch `failures` when there are several steps."""
    attempts = [
        Attempt(
            number=failure.number,
            status=failure.status,
            error=failure.error,
            started_at=failure.started_at,
            finished_at=failure.finished_at,
        )
        for failure in sorted(step.failures.all(), key=lambda failure: failure.number)
    ]
    if step.tried_at and step.attempts > (attempts[-1].number if attempts else 0):
        attempts.append(
            Attempt(
                number=step.attempts,
                status=step.status,
                error=None,
                started_at=step.tried_at,
                finished_at=step.finished_at,
            )
        )
    return attempts
