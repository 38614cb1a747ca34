"""An agent's canvas: the draft that people and tools change, and what is published of it."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from agents.models.agent import Agent
from tenants.ids import uuid7
from tenants.models import OwnedModel


class Canvas(OwnedModel):
    """Which revision is the draft, and which one is published. Its row is the lock of writers."""

    agent = models.OneToOneField(
        Agent, primary_key=True, on_delete=models.CASCADE, related_name="canvas"
    )
    revision = models.PositiveIntegerField(default=0)
    published = models.PositiveIntegerField(null=True, blank=True)
    published_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(published=None) | Q(published__lte=F("revision"), published__gte=1),
                name="canvas_publishes_a_revision_it_has",
            ),
        ]

    def __str__(self) -> str:
        return f"canvas of {self.agent_id} at {self.revision}"


class CanvasRevision(OwnedModel):
    """One state of the graph. The database refuses to change it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(
        Agent, on_delete=models.CASCADE, db_index=False, related_name="canvas_revisions"
    )
    number = models.PositiveIntegerField()
    nodes = models.JSONField(default=list)
    edges = models.JSONField(default=list)
    #: The call that wrote it, when no person did.
    session_id = models.UUIDField(null=True, blank=True)
    run_id = models.UUIDField(null=True, blank=True)
    call_id = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "number"], name="canvas_revision_is_unique_in_its_agent"
            ),
            models.UniqueConstraint(
                fields=["agent", "session_id", "call_id"],
                condition=~Q(call_id=""),
                name="canvas_call_writes_once",
            ),
            models.CheckConstraint(
                condition=Q(number__gte=1), name="canvas_revisions_start_at_one"
            ),
        ]

    def __str__(self) -> str:
        return f"revision {self.number}"
