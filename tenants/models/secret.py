"""A secret of a workspace: encrypted, written and never read back by anybody at a door."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now
from encrypted_fields.fields import EncryptedTextField

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel


class Secret(OwnedModel):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=64)
    value = EncryptedTextField()
    #: Where it may be sent: `api.example.com` or `*.example.com`. Empty: anywhere.
    hosts = ArrayField(models.CharField(max_length=253), default=list, blank=True)
    set_at = models.DateTimeField(db_default=Now(), editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "vault_secrets"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="secret_name_is_unique_in_its_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Secret {self.name}>"
