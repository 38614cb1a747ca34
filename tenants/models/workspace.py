"""The workspace: what everything else belongs to."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from tenants.ids import uuid7


class Workspace(models.Model):
    """A group of people with their agents, sessions, memory and money."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=80)
    slug = models.SlugField(max_length=90, unique=True)
    #: Whom agents may write e-mail to beside members: `ann@example.com`, `*@example.com`.
    mail_allowed = ArrayField(
        models.CharField(max_length=320), default=list, db_default=[], blank=True
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
