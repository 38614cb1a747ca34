"""The approval: one question to people, answered exactly once."""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.models import Agent
from sessions_app.models.execution import ToolExecution
from sessions_app.models.session import Session
from tenants.models import OwnedModel, OwnedQuerySet


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
