"""The inbox of a workflow: events that were sent to it, each for one waiter."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from orchestrator.models.workflow import Workflow


class WorkflowSignal(models.Model):
    """Waits until a step asks for its type; the oldest goes first."""

    id = models.BigAutoField(primary_key=True)
    # The unique (workflow, seq) serves as its index.
    workflow = models.ForeignKey(
        Workflow, on_delete=models.CASCADE, db_index=False, related_name="signals"
    )
    #: Of the workflow's log, which says when it came.
    seq = models.BigIntegerField()
    type = models.CharField(max_length=100)
    #: JSON as text, as results are.
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
