"""A workspace's key to a model provider: encrypted, write-only."""

from __future__ import annotations

from django.db import models
from encrypted_fields.fields import EncryptedTextField

from tenants.ids import uuid7
from tenants.models import OwnedModel


class ProviderKey(OwnedModel):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    provider = models.CharField(max_length=20)
    base_url = models.URLField(blank=True)
    #: Null for a server that asks for no key.
    secret = EncryptedTextField(null=True, blank=True)
    #: The last characters, so that people can tell keys apart.
    hint = models.CharField(max_length=8, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, editable=False)
    check_error = models.TextField(blank=True, editable=False)

    class Meta:
        ordering = ["provider"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "provider"], name="provider_key_is_one_per_workspace"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider} …{self.hint}"
