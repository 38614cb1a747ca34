"""A link that signs its bearer in, once."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from tenants.ids import uuid7
from tenants.models.user import User


class SignInLink(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    def __str__(self) -> str:
        return f"link for {self.user}"
