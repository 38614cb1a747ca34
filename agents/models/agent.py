"""Agents with their immutable versions, their drafts and their canvases."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import F, Q

from agents.models.environment import Environment
from tenants.models import OwnedModel, OwnedQuerySet


class AgentQuerySet(OwnedQuerySet):
    def active(self) -> Self:
        """Return agents that are not archived."""
        return self.filter(archived_at=None)

    def known(self) -> Self:
        """Return agents that people made, without the builder that the product brings."""
        return self.filter(role=Agent.Role.AGENT)

    def offered(self) -> Self:
        """Return agents that may be given work: active, made by people, published at least once."""
        return self.active().known().filter(is_draft=False)


class VersionQuerySet(OwnedQuerySet):
    def published(self) -> Self:
        """Return numbered versions, without those that only a preview of a draft runs."""
        return self.filter(preview=None)


class Agent(OwnedModel):
    """A named agent. Its versions define what it does."""

    class Role(models.TextChoices):
        AGENT = "agent"
        BUILDER = "builder"

    role = models.CharField(max_length=7, choices=Role, default=Role.AGENT, db_default=Role.AGENT)
    #: True until the first version is published; `current` is then a preview.
    is_draft = models.BooleanField(default=False, db_default=False)
    current = models.ForeignKey(
        "agents.AgentVersion", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    archived_at = models.DateTimeField(null=True, blank=True)

    objects = AgentQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"],
                condition=models.Q(role="builder"),
                name="agent_that_builds_is_one_per_workspace",
            ),
        ]

    def __str__(self) -> str:
        return self.current.name if self.current else f"agent {self.pk}"


class AgentVersion(OwnedModel):
    """One immutable definition of an agent. The database refuses to change it."""

    class Runner(models.TextChoices):
        HARNESS = "harness"

    class Effort(models.TextChoices):
        OFF = "off"
        LOW = "low"
        MEDIUM = "medium"
        HIGH = "high"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="versions")
    #: From 1 on; 0 is a preview.
    number = models.PositiveIntegerField()
    #: The draft's revision that this version previews. Previews are never offered or published.
    preview = models.PositiveIntegerField(null=True, blank=True, editable=False)
    name = models.CharField(max_length=80)
    description = models.TextField(blank=True)
    system_prompt = models.TextField(blank=True)
    provider = models.CharField(max_length=20)
    model = models.CharField(max_length=120)
    runner = models.CharField(max_length=20, choices=Runner, default=Runner.HARNESS)
    #: Models to try next, in order: `[{"provider": …, "model": …}]`.
    fallbacks = models.JSONField(default=list, blank=True)
    temperature = models.FloatField(null=True, blank=True)
    max_tokens = models.PositiveIntegerField(null=True, blank=True)
    #: How much the model thinks before it answers. Empty leaves it to the model.
    effort = models.CharField(max_length=6, choices=Effort, blank=True, default="", db_default="")
    #: The JSON Schema that answers must fit.
    response_schema = models.JSONField(null=True, blank=True)
    # Unlike PROTECT, RESTRICT allows deleting both with their workspace.
    environment = models.ForeignKey(
        Environment, null=True, blank=True, on_delete=models.RESTRICT, related_name="+"
    )
    limits = models.JSONField(default=dict, blank=True)
    #: Why this version was made, if it was not edited by a person.
    note = models.CharField(max_length=200, blank=True, default="", db_default="")

    objects = VersionQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "number"],
                condition=models.Q(preview=None),
                name="version_number_is_unique_among_its_agents_versions",
            ),
            models.UniqueConstraint(
                fields=["agent", "preview"],
                condition=models.Q(number=0),
                name="version_previews_a_revision_once",
            ),
            models.CheckConstraint(
                condition=models.Q(number__gte=1, preview=None)
                | models.Q(number=0, preview__isnull=False),
                name="version_has_a_number_or_is_a_preview",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.number}"


class AgentDraft(OwnedModel):
    """The unpublished changes of an agent. Writers lock this row; it outlives publishing."""

    id = None  # type: ignore[assignment]
    agent = models.OneToOneField(
        Agent, primary_key=True, on_delete=models.CASCADE, related_name="draft"
    )
    #: Counts every change, including those of drafts that were published before.
    revision = models.PositiveIntegerField(default=0)
    #: The whole value of each field that differs from the published version.
    fields = models.JSONField(default=dict, blank=True)
    #: The proposed policy, and the revision of the policy that it replaces.
    policy = models.JSONField(null=True, blank=True)
    policy_base = models.PositiveIntegerField(null=True, blank=True)
    #: The canvas revision before this draft first changed it; null while it has not.
    canvas_base = models.PositiveIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return f"draft of {self.agent_id} at {self.revision}"

    @property
    def is_empty(self) -> bool:
        return not self.fields and self.policy is None and self.canvas_base is None


class DraftChange(OwnedModel):
    """One change of a draft: who made it, and how to undo it."""

    POLICY, CANVAS = "policy", "canvas"

    agent = models.ForeignKey(
        Agent, on_delete=models.CASCADE, db_index=False, related_name="draft_changes"
    )
    #: The draft's revision that this change made.
    revision = models.PositiveIntegerField()
    #: The name of a field, `policy`, or `canvas`.
    part = models.CharField(max_length=40)
    #: The values before and after; for a canvas, revision numbers.
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    #: The tool call that made the change, if a person did not.
    session_id = models.UUIDField(null=True, blank=True)
    run_id = models.UUIDField(null=True, blank=True)
    call_id = models.CharField(max_length=64, blank=True)
    #: The change that this one undoes.
    undoes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="undone_by"
    )
    #: The version that published this change, or 0 if the draft was discarded.
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


class Canvas(OwnedModel):
    """Which revision of an agent's canvas is newest, and which is published. Writers lock this row."""

    id = None  # type: ignore[assignment]
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
    """One immutable state of the graph. The database refuses to change it."""

    agent = models.ForeignKey(
        Agent, on_delete=models.CASCADE, db_index=False, related_name="canvas_revisions"
    )
    number = models.PositiveIntegerField()
    nodes = models.JSONField(default=list)
    edges = models.JSONField(default=list)
    #: The tool call that wrote the revision, if a person did not.
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
