"""The terminal: a person's shell in the sandbox of a session or a task."""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from orchestrator.models.workflow import Workflow
from sessions_app.models import Session
from tenants.models import OwnedModel, OwnedQuerySet


class TerminalQuerySet(OwnedQuerySet):
    def living(self) -> Self:
        """Exclude the terminals that are over."""
        return self.exclude(status=Terminal.Status.CLOSED)


class Terminal(OwnedModel):
    """One row per terminal that was ever opened. Its output is kept only in the host process."""

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
