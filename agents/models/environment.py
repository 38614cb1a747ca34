"""Where an agent's commands run: which kind of sandbox, which network, which limits."""

from __future__ import annotations

from django.db import models

from tenants.ids import uuid7
from tenants.models import OwnedModel

DEFAULT_NAME = "local-default"


class Environment(OwnedModel):
    class Kind(models.TextChoices):
        LOCAL = "local"
        CONTAINER = "container"

    class Network(models.TextChoices):
        NONE = "none"
        ALLOWLIST = "allowlist"
        FULL = "full"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=9, choices=Kind, default=Kind.LOCAL)
    network = models.CharField(max_length=9, choices=Network, default=Network.NONE)
    allowed_hosts = models.JSONField(default=list, blank=True)
    image = models.CharField(max_length=200, blank=True)
    mounts = models.JSONField(default=list, blank=True)
    limits = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="environment_name_is_unique_in_its_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name
