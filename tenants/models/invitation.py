"""An offer to join a workspace, carried by a link."""

from __future__ import annotations

from django.db import models

from tenants.ids import uuid7
from tenants.models.membership import Membership
from tenants.models.owned import OwnedModel


class Invitation(OwnedModel):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    email = models.EmailField()
    role = models.CharField(max_length=8, choices=Membership.Role, default=Membership.Role.BUILDER)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "email"],
                condition=models.Q(accepted_at=None),
                name="invitation_is_open_once_per_address",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.email} as {self.role}"
