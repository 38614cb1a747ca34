"""The log of a workflow: what happened to it, in order, for those who watch."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import F
from django.db.models.functions import Now

from orchestrator.models.workflow import Workflow


class WorkflowEventQuerySet(models.QuerySet):
    def after(self, seq: int) -> Self:
        """With the workflow's name, which tells what its steps are called after."""
        named = self.annotate(workflow_name=F("workflow__name"))
        return named.filter(seq__gt=seq).order_by("seq")


class WorkflowEvent(models.Model):
    """Written once, under the workflow's lock, so that its numbers have no gaps."""

    class Type(models.TextChoices):
        STATUS = "status"
        STEP = "step"
        PROGRESS = "progress"
        LOG = "log"
        OUTPUT = "output"

    id = models.BigAutoField(primary_key=True)
    # The unique (workflow, seq) serves as its index. Not a constraint: its writers hold the row.
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
