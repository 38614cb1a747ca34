"""An agent's draft: what people and builders want it to be, until it is published."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from agents.models.agent import Agent
from tenants.ids import uuid7
from tenants.models import OwnedModel


class AgentDraft(OwnedModel):
    """What differs from the published agent. Its row is the lock of writers; it outlives publishing."""

    agent = models.OneToOneField(
        Agent, primary_key=True, on_delete=models.CASCADE, related_name="draft"
    )
    #: Counts every change, also those of drafts that were published before.
    revision = models.PositiveIntegerField(default=0)
    #: The fields of the definition that differ, whole.
    fields = models.JSONField(default=dict, blank=True)
    #: The words of the proposed policy, and the revision of the policy that they were written on.
    policy = models.JSONField(null=True, blank=True)
    policy_base = models.PositiveIntegerField(null=True, blank=True)
    #: The canvas before this draft first changed it; null while it has not.
    canvas_base = models.PositiveIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return f"draft of {self.agent_id} at {self.revision}"

    @property
    def is_empty(self) -> bool:
        return not self.fields and self.policy is None and self.canvas_base is None


class DraftChange(OwnedModel):
    """One thing that was changed, by whom, and how to take it back."""

    POLICY, CANVAS = "policy", "canvas"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(
        Agent, on_delete=models.CASCADE, db_index=False, related_name="draft_changes"
    )
    #: The revision of the draft that it made.
    revision = models.PositiveIntegerField()
    #: The name of a field, `policy`, or `canvas`.
    part = models.CharField(max_length=40)
    #: The values; of a canvas, the numbers of its revisions.
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    #: The call that made it, when no person did.
    session_id = models.UUIDField(null=True, blank=True)
    run_id = models.UUIDField(null=True, blank=True)
    call_id = models.CharField(max_length=64, blank=True)
    #: The change that it takes back.
    undoes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="undone_by"
    )
    #: The version that was published with it, or 0 when it was thrown away.
    settled = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["-revision", "part"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "revision", "part"], name="draft_change_is_one_per_revision"
            ),
            models.UniqueConstraint(
                fields=["agent", "session_id", "call_id", "part"],
                condition=~Q(call_id=""),
                name="draft_call_changes_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.part} at {self.revision}"
