"""Environments, in which agents' commands run, and the keys of model providers."""

from __future__ import annotations

from django.db import models
from encrypted_fields.fields import EncryptedTextField

from tenants.models import OwnedModel

DEFAULT_NAME = "local-default"


class Environment(OwnedModel):
    """Where commands run: the kind of sandbox, its network, mounts and limits."""

    class Kind(models.TextChoices):
        LOCAL = "local"
        CONTAINER = "container"

    class Network(models.TextChoices):
        NONE = "none"
        ALLOWLIST = "allowlist"
        FULL = "full"

    name = models.CharField(max_length=80)
    #: One of `Kind`, or a kind that a plugin brings.
    kind = models.CharField(max_length=40, default=Kind.LOCAL)
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


class ProviderKey(OwnedModel):
    """A workspace's key for a model provider, encrypted at rest."""

    provider = models.CharField(max_length=20)
    base_url = models.URLField(blank=True)
    #: Null for a server that needs no key.
    secret = EncryptedTextField(null=True, blank=True)
    #: The last characters of the key, so that people can tell keys apart.
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


class ProviderSettings(OwnedModel):
    """What a workspace has set and learned about the models of one provider."""

    provider = models.CharField(max_length=20)
    #: The model of new agents, if this is the workspace's default provider.
    default_model = models.CharField(max_length=120, blank=True)
    #: Facts that members set, by the name of a model; the empty name stands for every model.
    facts = models.JSONField(default=dict, blank=True)
    #: The models that the server listed, with the facts that it told, by name.
    listed = models.JSONField(default=dict, blank=True, editable=False)
    listed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "provider_settings"
        ordering = ["provider"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "provider"], name="provider_settings_are_one_per_workspace"
            ),
            models.UniqueConstraint(
                fields=["workspace"],
                condition=~models.Q(default_model=""),
                name="default_model_is_one_per_workspace",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider} in {self.workspace_id}"
