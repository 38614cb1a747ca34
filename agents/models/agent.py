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


class Agent(OwnedModel):
    """A name that people know. What it does is in its versions."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    current = models.ForeignKey(
        "agents.AgentVersion", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    archived_at = models.DateTimeField(null=True, blank=True)

    objects = AgentQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.current.name if self.current else f"agent {self.pk}"


class AgentVersion(OwnedModel):
    """One immutable definition of an agent. The database refuses to change it."""

    class Runner(models.TextChoices):
        HARNESS = "harness"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
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

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "number"], name="version_number_is_unique_in_its_agent"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.number}"
