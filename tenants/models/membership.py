"""Who belongs to which workspace, and as what."""

from __future__ import annotations

from django.db import models

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel
from tenants.models.user import User


class Membership(OwnedModel):
    class Role(models.TextChoices):
        OWNER = "owner"
        ADMIN = "admin"
        BUILDER = "builder"
        VIEWER = "viewer"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role, default=Role.BUILDER)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "user"], name="membership_is_one_per_person"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role}"
