"""The base that every owned row extends."""

from __future__ import annotations

from typing import Self
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from tenants.models.workspace import Workspace


class OwnedQuerySet(models.QuerySet):
    def for_workspace(self, workspace_id: UUID | None) -> Self:
        """Rows of one workspace. No workspace means no rows."""
        return self.filter(workspace_id=workspace_id) if workspace_id else self.none()


class OwnedModel(models.Model):
    """A row that belongs to exactly one workspace."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        editable=False,
        # Only the deletion of a person looks for it, and every write would pay for the index.
        db_index=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        abstract = True
