"""What a workspace reaches a model provider with: its own key, else the operator's.

A workspace's row is used whole or not at all: its address never gets the operator's key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

from agents.models import ProviderKey
from agents.providers.registry import credentials_from_environment, find_provider, is_enough
from agents.recent import Recent
from config.faults import ProviderNotConfigured

if TYPE_CHECKING:
    from httpx2 import Client

#: How a value begins that could not be decrypted: the field then hands out what is stored.
CIPHERTEXT = "gAAAA"


class Source(StrEnum):
    """Where a provider's key comes from."""

    WORKSPACE = "workspace"
    ENVIRONMENT = "environment"
    BUILT_IN = "built_in"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What it takes to reach a provider."""

    source: Source
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None

    @property
    def http_client(self) -> Client | None:
        """Connects only to public addresses, if the address is one that a member typed."""
        if self.source is not Source.WORKSPACE or not self.base_url:
            return None
        from agents.guarded_pool import guarded_client

        return guarded_client()


def credentials(workspace_id: UUID, provider: str) -> Credentials:
    """What this workspace reaches the provider with, or a fault that says what to do."""
    factory = find_provider(provider)
    if not factory.needs_key:
        return Credentials(source=Source.BUILT_IN)
    found = _recent.get((workspace_id, provider)) or from_environment(provider)
    if found is None:
        raise ProviderNotConfigured(
            f"No key is set for {factory.label}. Add one in the settings, or choose the demo."
        )
    if found.api_key and found.api_key.startswith(CIPHERTEXT):
        raise ProviderNotConfigured(
            f"The stored key for {factory.label} cannot be read any more. Save it again."
        )
    return found


def from_environment(provider: str) -> Credentials | None:
    """The operator's, which every workspace may use that has none of its own."""
    api_key, base_url = credentials_from_environment(provider)
    if not is_enough(provider, api_key, base_url):
        return None
    return Credentials(source=Source.ENVIRONMENT, api_key=api_key, base_url=base_url)


def forget(workspace_id: UUID, provider: str) -> None:
    """The stored key has changed."""
    _recent.forget((workspace_id, provider))


def _load(owned: tuple[UUID, str]) -> Credentials | None:
    workspace_id, provider = owned
    key = ProviderKey.objects.for_workspace(workspace_id).filter(provider=provider).first()
    if key is None:
        return None
    return Credentials(
        source=Source.WORKSPACE, api_key=key.secret or None, base_url=key.base_url or None
    )


_recent: Recent[tuple[UUID, str], Credentials | None] = Recent(_load)
