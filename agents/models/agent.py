"""The agent, and the numbered versions that never change."""

from __future__ import annotations

from typing import Self

from django.db import models

from agents.models.environment import Environment
from tenants.ids import uuid7
from tenants.models import OwnedModel, OwnedQuerySet


class AgentQuerySet(OwnedQuerySet):
    def active(self) -> Self:
        """Agents that were not put away."""
        return self.filter(archived_at=None)

    def known(self) -> Self:
        """Agents that people made, as against those that the product brings for itself."""
        return self.filter(role=Agent.Role.AGENT)

    def offered(self) -> Self:
        """Agents that may be given work: known, active, and published at least once."""
        return self.active().known().filter(is_draft=False)


class VersionQuerySet(OwnedQuerySet):
    def published(self) -> Self:
        """Numbered versions, without those that only a preview of a draft runs."""
        return self.filter(preview=None)


class Agent(OwnedModel):
    """A name that people know. What it does is in its versions."""

    class Role(models.TextChoices):
        AGENT = "agent"
        BUILDER = "builder"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    role = models.CharField(max_length=7, choices=Role, default=Role.AGENT, db_default=Role.AGENT)
    #: Until its first version is published. Its current version is then a preview.
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

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="versions")
    #: From 1 on; 0 is a preview.
    number = models.PositiveIntegerField()
    #: The revision of the draft that this is a preview of. Never offered, never published.
    preview = models.PositiveIntegerField(null=True, blank=True, editable=False)
    name = models.CharField(max_length=80)
    description = models.TextField(blank=True)
    system_prompt = models.TextField(blank=True)
    provider = models.CharField(max_length=20)
    model = models.CharField(max_length=120)
    runner = models.CharField(max_length=20, choices=Runner, default=Runner.HARNESS)
    #: What to try next, in order: `[{"provider": …, "model": …}]`.
    fallbacks = models.JSONField(default=list, blank=True)
    temperature = models.FloatField(null=True, blank=True)
    max_tokens = models.PositiveIntegerField(null=True, blank=True)
    # RESTRICT, unlike PROTECT, lets both go when their workspace is erased.
    environment = models.ForeignKey(
        Environment, null=True, blank=True, on_delete=models.RESTRICT, related_name="+"
    )
    limits = models.JSONField(default=dict, blank=True)

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
