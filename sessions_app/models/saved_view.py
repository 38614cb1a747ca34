"""A way to look at the sessions that somebody gave a name to."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q

from tenants.ids import uuid7
from tenants.models import OwnedModel, OwnedQuerySet


class SavedViewQuerySet(OwnedQuerySet):
    def seen_by(self, person_id: UUID | None) -> SavedViewQuerySet:
        """A person's own, and what others share."""
        return self.filter(Q(person_id=person_id) | Q(is_shared=True))


class SavedView(OwnedModel):
    """Only the address of a list: what it shows is asked for anew each time it is opened."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1_000, blank=True)
    #: Everybody in the workspace sees it.
    is_shared = models.BooleanField(default=False)

    objects = SavedViewQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "session_saved_views"
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "person", "name"], name="saved_view_is_named_once"
            ),
        ]

    def __str__(self) -> str:
        return self.name
