"""The tool ledger: every tool call, its decision and its result."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Q

from sessions_app.models.run import Run
from sessions_app.models.session import Session
from tenants.models import OwnedModel, OwnedQuerySet


class ToolExecutionQuerySet(OwnedQuerySet):
    def open(self) -> Self:
        """Calls of sessions without a result yet. Workflows look after their own calls."""
        return self.filter(state__in=ToolExecution.OPEN, workflow_id=None)


class ToolExecution(OwnedModel):
    """A tool call, written before the tool runs.

    `unknown` means that the call was started and its end was not seen.
    """

    class State(models.TextChoices):
        REQUESTED = "requested"
        AWAITING_APPROVAL = "awaiting_approval"
        RUNNING = "running"
        COMPLETED = "completed"
        ERROR = "error"
        DENIED = "denied"
        CANCELLED = "cancelled"
        UNKNOWN = "unknown"

    OPEN = (State.REQUESTED, State.AWAITING_APPROVAL, State.RUNNING)

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="executions")
    #: The run that made the call. A call of a workflow has a `workflow_id` instead.
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.CASCADE, related_name="executions"
    )
    workflow_id = models.UUIDField(null=True, blank=True, editable=False)
    tool_use_id = models.CharField(max_length=64)
    name = models.CharField(max_length=160)
    input = models.JSONField()
    ownership = models.CharField(max_length=8, default="managed")
    decision = models.CharField(max_length=5, default="allow")
    decided_by = models.CharField(max_length=200, blank=True)
    read_only = models.BooleanField(default=False)
    idempotent = models.BooleanField(default=False)
    state = models.CharField(max_length=17, choices=State, default=State.REQUESTED)
    output = models.JSONField(null=True)
    error = models.TextField(blank=True)
    #: The call waits for another session, which brings its result.
    parked = models.BooleanField(default=False, db_default=False)
    attempts = models.PositiveSmallIntegerField(default=0)
    #: How often a person had a call of unknown outcome run again.
    retries = models.PositiveSmallIntegerField(default=0, db_default=0)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = ToolExecutionQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "tool_executions"
        ordering = ["-created_at"]
        indexes = [
            models.Index(
                fields=["session"],
                condition=Q(state__in=["requested", "awaiting_approval", "running"]),
                name="execution_open_by_session",
            ),
            models.Index(fields=["workspace", "-created_at"], name="execution_by_workspace"),
            models.Index(
                fields=["session"],
                condition=Q(state__in=["error", "unknown"]),
                name="execution_failed_by_session",
            ),
            models.Index(
                fields=["workflow_id"],
                condition=Q(workflow_id__isnull=False),
                name="execution_by_workflow",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "tool_use_id"], name="execution_is_one_per_call"
            ),
            models.CheckConstraint(
                condition=Q(run__isnull=False, workflow_id=None)
                | Q(run=None, workflow_id__isnull=False),
                name="execution_is_of_a_run_or_a_workflow",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.state}"

    @property
    def waits(self) -> bool:
        """Return whether a person, a client or another session has to answer first."""
        return self.state == self.State.AWAITING_APPROVAL or (
            self.state == self.State.RUNNING and (self.ownership == "custom" or self.parked)
        )
