"""The run: one turn of a session, its tool calls, and the approvals that they wait for."""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from agents.models import Agent
from sessions_app.models.session import Session
from tenants.models import OwnedModel, OwnedQuerySet, Workspace


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
        CONSOLIDATE = "consolidate"

    # The index by age begins with it.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_index=False, related_name="runs"
    )
    status = models.CharField(
        max_length=9, choices=Status, default=Status.QUEUED, db_default=Status.QUEUED
    )
    on_busy = models.CharField(
        max_length=9, choices=OnBusy, default=OnBusy.FOLLOWUP, db_default=OnBusy.FOLLOWUP
    )
    #: A run answers messages, compacts the context or consolidates memory. All hold the lane.
    purpose = models.CharField(
        max_length=11, choices=Purpose, default=Purpose.TURN, db_default=Purpose.TURN
    )
    #: The options of a requested compaction or consolidation, or the overrides of a turn.
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
            models.Index(fields=["workspace", "-created_at", "-id"], name="run_by_age"),
            models.Index(
                fields=["not_before"], condition=Q(status="queued"), name="run_by_due_time"
            ),
            models.Index(
                fields=["workspace"], condition=Q(status="queued"), name="run_waiting_by_workspace"
            ),
            models.Index(
                fields=["session"],
                condition=Q(status__in=["failed", "dead"]),
                name="run_failed_by_session",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["session"], condition=Q(status="running"), name="run_is_alone_in_its_lane"
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

    # The index by time begins with it.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_index=False, related_name="executions"
    )
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
    #: Whether the rollups contain it; see `sql/tool_use.sql`.
    folded = models.BooleanField(default=False, db_default=False, editable=False)

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
            models.Index(fields=["session", "-created_at"], name="execution_by_session"),
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
            models.Index(
                fields=["workspace"], condition=Q(folded=False), name="execution_unfolded"
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
    def is_repeatable(self) -> bool:
        """Return whether the call does no harm when it is made twice."""
        return self.read_only or self.idempotent

    @property
    def waits(self) -> bool:
        """Return whether a person, a client or another session has to answer first."""
        return self.state == self.State.AWAITING_APPROVAL or (
            self.state == self.State.RUNNING and (self.ownership == "custom" or self.parked)
        )


class ToolUseRollup(models.Model):
    """The calls of one tool on one day by UTC. Only `sql/tool_use.sql` writes it.

    It has no constraint on the workspace, like `UsageRollup`.
    """

    #: The bucket of calls that did not run.
    NEVER_RAN = -1_000

    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    day = models.DateField()
    name = models.CharField(max_length=160)
    state = models.CharField(max_length=17, choices=ToolExecution.State)
    decision = models.CharField(max_length=5)
    #: Durations that differ by less than a tenth: the logarithm of the milliseconds to the base 1.1.
    bucket = models.SmallIntegerField()
    calls = models.BigIntegerField()
    #: How long these calls took together.
    ms = models.DecimalField(max_digits=20, decimal_places=3)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        db_table = "tool_use_rollups"
        ordering = ["-day", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "day", "name", "state", "decision", "bucket"],
                name="tool_use_is_one_per_day_and_bucket",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.state} on {self.day}"


class ApprovalQuerySet(OwnedQuerySet):
    def pending(self) -> Self:
        """Approvals that have not been answered yet."""
        return self.filter(status=Approval.Status.PENDING)


class Approval(OwnedModel):
    """A question to people. Once it is resolved, the database refuses any change to it.

    Only the reference to a deleted user is cleared.
    """

    class Subject(models.TextChoices):
        TOOL = "tool"
        WORKFLOW = "workflow"

    class Status(models.TextChoices):
        PENDING = "pending"
        ALLOWED = "allowed"
        DENIED = "denied"
        EXPIRED = "expired"
        CANCELLED = "cancelled"

    class Decision(models.TextChoices):
        """What a person may answer."""

        ALLOW = "allow"
        DENY = "deny"
        #: Only a question is answered, with values.
        ANSWER = "answer"

    class Scope(models.TextChoices):
        ONCE = "once"
        SESSION = "session"
        ALWAYS = "always"

    subject = models.CharField(max_length=8, choices=Subject, default=Subject.TOOL)
    #: The call, or the step of a workflow, that waits for the answer.
    subject_id = models.UUIDField()
    session = models.ForeignKey(
        Session, null=True, on_delete=models.CASCADE, db_index=False, related_name="approvals"
    )
    execution = models.OneToOneField(
        ToolExecution, null=True, on_delete=models.CASCADE, related_name="approval"
    )
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    title = models.CharField(max_length=300)
    input = models.JSONField(default=dict)
    #: The rule that asked.
    reason = models.CharField(max_length=300, blank=True)
    status = models.CharField(max_length=9, choices=Status, default=Status.PENDING)
    scope = models.CharField(max_length=7, choices=Scope, blank=True)
    #: The policy rule that an answer with the scope session or always covers.
    rule = models.TextField(blank=True)
    #: Arguments that the person wrote in place of the original ones.
    edited_input = models.JSONField(null=True)
    note = models.TextField(blank=True)
    expires_at = models.DateTimeField()
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
    )
    #: The email address of the person, or the name of the key, at that time.
    resolved_name = models.CharField(max_length=254, blank=True)
    resolved_at = models.DateTimeField(null=True)

    objects = ApprovalQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "approvals"
        ordering = ["-created_at"]
        indexes = [
            models.Index(
                fields=["workspace", "created_at"],
                condition=Q(status="pending"),
                name="approval_pending",
            ),
            models.Index(
                fields=["expires_at"], condition=Q(status="pending"), name="approval_by_expiry"
            ),
            models.Index(
                fields=["session"],
                condition=Q(status="allowed", scope="session"),
                name="approval_held_in_session",
            ),
            models.Index(fields=["session", "-created_at"], name="approval_by_session"),
            models.Index(fields=["workspace", "-created_at", "-id"], name="approval_by_workspace"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status="pending", resolved_at=None)
                | (~Q(status="pending") & Q(resolved_at__isnull=False)),
                name="approval_is_resolved_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(subject="tool", execution__isnull=False)
                | (~Q(subject="tool") & Q(execution=None)),
                name="approval_of_a_tool_has_its_call",
            ),
            models.CheckConstraint(
                condition=Q(scope="") | Q(status__in=["allowed", "denied"]),
                name="approval_scope_is_an_answer",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status}: {self.title}"
