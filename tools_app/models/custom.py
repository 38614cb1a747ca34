"""A tool that a client runs itself: described here, answered from outside."""

from __future__ import annotations

from django.db import models

from tenants.ids import uuid7
from tenants.models import OwnedModel


class CustomTool(OwnedModel):
    class Permission(models.TextChoices):
        ALWAYS_ALLOW = "always_allow"
        ALWAYS_ASK = "always_ask"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=60)
    description = models.TextField()
    #: A JSON Schema of an object.
    input_schema = models.JSONField(default=dict)
    permission = models.CharField(
        max_length=12, choices=Permission, default=Permission.ALWAYS_ALLOW
    )
    #: How long a call waits for its answer.
    timeout_seconds = models.PositiveIntegerField(default=300)

    class Meta:
        db_table = "agent_custom_tools"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="custom_tool_name_is_unique_in_its_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name
