"""A skill: a Markdown document that an agent knows of and reads when it needs it."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from tenants.ids import uuid7
from tenants.models import OwnedModel


class Skill(OwnedModel):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=60)
    #: One line; it stands in the prompt of every agent that has the skill.
    description = models.CharField(max_length=300)
    body = models.TextField()
    #: The agents that have it. Empty: all of the workspace.
    agents = ArrayField(models.UUIDField(), default=list, blank=True)
    enabled = models.BooleanField(default=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "agent_skills"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="skill_name_is_unique_in_its_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name
