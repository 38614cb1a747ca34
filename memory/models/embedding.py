"""Which model a workspace's memory is embedded with."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from tenants.ids import uuid7
from tenants.models import OwnedModel


class EmbeddingChoice(OwnedModel):
    """Searches use `model`. While another one is being filled, writers fill both."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    model = models.CharField(max_length=120)
    #: What `manage.py reembed` moves to; empty when it has arrived.
    coming = models.CharField(max_length=120, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"], name="embedding_choice_is_one_per_workspace"
            ),
            models.CheckConstraint(
                condition=~Q(coming=models.F("model")), name="embedding_moves_to_another_model"
            ),
        ]

    def __str__(self) -> str:
        return self.model
