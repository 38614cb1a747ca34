"""The tables of workflows, their steps and logs, triggers and terminals."""

from __future__ import annotations

from typing import Any, Self

import orjson
from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from encrypted_fields.fields import EncryptedTextField

from agents.models import Agent
from core.ids import uuid7
from sessions_app.models import Session
from tenants.models import OwnedModel, OwnedQuerySet


class WorkflowQuerySet(OwnedQuerySet):
    def over(self) -> Self:
        """Filter those that have ended."""
        return self.filter(status__in=Workflow.OVER)


class Workflow(OwnedModel):
    """One durable run of a workflow class. The engine's SQL writes the columns from `status` to `last_seq`.

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


class Step(models.Model):
    """Something a workflow does once, identified by its name and how often the name was used.

    It is written before its body runs, so that a crash cannot hide an attempt.
    """

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


def attempts_of(step: Step) -> list[StepAttempt]:
    """Return all attempts in order: the stored failures, and the one that runs or succeeded.

    Prefetch `failures` when there are several steps.
    """
    attempts = sorted(step.failures.all(), key=lambda failure: failure.number)
    if step.tried_at and step.attempts > (attempts[-1].number if attempts else 0):
        latest = StepAttempt(number=step.attempts, status=step.status, started_at=step.tried_at)
        latest.finished_at = step.finished_at  # type: ignore[assignment]  # None while it runs
        attempts.append(latest)
    return attempts


class WorkflowTrigger(OwnedModel):
    """A schedule or an incoming webhook that starts a workflow or an agent's canvas."""

    class Kind(models.TextChoices):
        SCHEDULE = "schedule"
        WEBHOOK = "webhook"

    class Verify(models.TextChoices):
        #: The sender signs each message as Standard Webhooks specifies.
        SIGNATURE = "signature"
        #: The sender sends the secret itself, for systems that cannot sign.
        TOKEN = "token"  # noqa: S105 (the name of a method, not a secret)

    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=8, choices=Kind)
    workflow = models.CharField(max_length=100)
    #: The agent whose canvas runs, or on whose behalf the workflow runs.
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    #: A template: `{{input.…}}` stands for the message that came in.
    params = models.JSONField(default=dict, blank=True)
    interval_seconds = models.PositiveIntegerField(null=True, blank=True)
    cron = models.CharField(max_length=120, blank=True, default="")
    timezone = models.CharField(max_length=64, default="UTC")
    next_at = models.DateTimeField(null=True, editable=False)
    last_at = models.DateTimeField(null=True, editable=False)
    paused_at = models.DateTimeField(null=True, editable=False)
    #: The last part of the webhook's URL. It identifies the trigger and authenticates nothing.
    token = models.CharField(max_length=43, null=True, unique=True, editable=False)
    verify = models.CharField(max_length=9, choices=Verify, default=Verify.SIGNATURE)
    secret = EncryptedTextField(null=True, editable=False)

    class Meta:
        db_table = "workflow_triggers"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(paused_at=None), name="trigger_due"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=~Q(kind="webhook") | Q(token__isnull=False, secret__isnull=False),
                name="trigger_by_webhook_has_a_secret",
            ),
            models.CheckConstraint(
                condition=~Q(kind="schedule") | ~Q(cron="") | Q(interval_seconds__isnull=False),
                name="trigger_by_schedule_says_when",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> str:
        """The path that messages are sent to."""
        return f"/hooks/{self.token}/" if self.token else ""


class TriggerFiring(OwnedModel):
    """One time that a trigger was due or called, and its outcome."""

    class Outcome(models.TextChoices):
        STARTED = "started"
        FAILED = "failed"

    # The unique (trigger, key) is not enough: a failed call has no key, so that it can be repeated.
    trigger = models.ForeignKey(WorkflowTrigger, on_delete=models.CASCADE, related_name="firings")
    #: The due time, or the message's id: the same key starts one workflow.
    key = models.CharField(max_length=80, null=True)
    outcome = models.CharField(max_length=7, choices=Outcome)
    #: How many earlier times were missed because nothing ran. They are not made up for.
    missed = models.PositiveIntegerField(default=0)
    workflow_id = models.UUIDField(null=True)
    note = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        db_table = "trigger_firings"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["created_at"], name="trigger_firing_by_age")]
        constraints = [
            models.UniqueConstraint(fields=["trigger", "key"], name="trigger_fires_once_per_key"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} at {self.created_at}"


class TerminalQuerySet(OwnedQuerySet):
    def living(self) -> Self:
        """Exclude the terminals that are over."""
        return self.exclude(status=Terminal.Status.CLOSED)


class Terminal(OwnedModel):
    """A person's shell in the sandbox of a session or a task; its output is kept only in the host."""

    class Status(models.TextChoices):
        OPENING = "opening"
        OPEN = "open"
        #: It was asked to close; its host has not done so yet.
        CLOSING = "closing"
        CLOSED = "closed"

    #: The session whose sandbox it is in; otherwise it is in the sandbox of the workflow's task.
    session = models.ForeignKey(
        Session, null=True, blank=True, on_delete=models.CASCADE, related_name="terminals"
    )
    #: The workflow that it was opened for, if any.
    workflow = models.ForeignKey(
        Workflow, null=True, blank=True, on_delete=models.SET_NULL, related_name="terminals"
    )
    status = models.CharField(
        max_length=8, choices=Status, default=Status.OPENING, db_default=Status.OPENING
    )
    #: The machine and process that hold it.
    host = models.CharField(max_length=80, blank=True, default="")
    host_pid = models.PositiveIntegerField(null=True, editable=False)
    columns = models.PositiveSmallIntegerField(default=80)
    rows = models.PositiveSmallIntegerField(default=24)
    opened_at = models.DateTimeField(null=True, editable=False)
    closed_at = models.DateTimeField(null=True, editable=False)
    closed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        editable=False,
        db_index=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    #: Why it closed, as shown to people.
    reason = models.CharField(max_length=300, blank=True, default="")
    #: The digest of the token with which readers may watch.
    share_hash = models.CharField(max_length=64, blank=True, default="", editable=False)
    share_expires = models.DateTimeField(null=True, editable=False)

    objects = TerminalQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "terminals"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["workspace", "-created_at"], name="terminal_by_age"),
            models.Index(fields=["host"], condition=~Q(status="closed"), name="terminal_living"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=~Q(status="closed") | Q(closed_at__isnull=False),
                name="terminal_that_is_over_says_when",
            ),
            models.CheckConstraint(
                condition=~Q(status="open") | Q(host_pid__isnull=False),
                name="terminal_that_is_open_has_a_host",
            ),
        ]

    def __str__(self) -> str:
        return f"terminal {self.pk} ({self.status})"

    @property
    def is_over(self) -> bool:
        return self.status == self.Status.CLOSED
