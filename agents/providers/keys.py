"""Saves, tests and resolves the keys of model providers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit
from uuid import UUID

from django.utils import timezone
from pydantic import AfterValidator, Field, StringConstraints

from agents.exceptions import ProviderNotConfigured
from agents.models import ProviderKey
from agents.providers import registry
from agents.providers.base import Provider
from agents.providers.failures import scrub
from core.db import TimedCache, release_connection
from core.exceptions import Fault, Invalid, NotFound
from core.validation import Input, read_input, wrong_field
from tenants.models import User

if TYPE_CHECKING:
    from httpx2 import Client


def _printable(text: str) -> str:
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError("A key can contain only ASCII letters, digits and signs, without spaces.")
    return text


def _web_address(url: str) -> str:
    """Validate an address that everyone in the workspace can see."""
    if not url:
        return url
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("The address must begin with http:// or https:// and name a host.")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("The address cannot contain a user name, password, query or fragment.")
    return url


class KeyInput(Input):
    """The key and the address of a provider. An empty address is the vendor's own."""

    api_key: Annotated[
        str,
        StringConstraints(strip_whitespace=True, max_length=4_096),
        AfterValidator(_printable),
        Field(repr=False),
    ] = ""
    base_url: Annotated[
        str,
        StringConstraints(strip_whitespace=True, max_length=200),
        AfterValidator(_web_address),
        AfterValidator(_printable),
    ] = ""


#: The prefix of a value that could not be decrypted: the field then returns the ciphertext.
CIPHERTEXT = "gAAAA"


class Source(StrEnum):
    """Where a provider's key comes from."""

    WORKSPACE = "workspace"
    ENVIRONMENT = "environment"
    BUILT_IN = "built_in"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The key and the address to reach a provider with."""

    source: Source
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None

    @property
    def http_client(self) -> Client | None:
        """Return a client that connects to public addresses only, if a member typed the address."""
        if self.source is not Source.WORKSPACE or not self.base_url:
            return None
        from agents.providers.http import guarded_client

        return guarded_client()


def credentials(workspace_id: UUID, provider: str) -> Credentials:
    """Return the key and address of this workspace for a provider.

    Raise ProviderNotConfigured if there is none, or the stored key cannot be decrypted.
    """
    factory = registry.find_provider(provider)
    if not factory.needs_key:
        return Credentials(source=Source.BUILT_IN)
    found = _recent.get((workspace_id, provider)) or from_environment(provider)
    if found is None:
        raise ProviderNotConfigured(
            f"No key is set for {factory.label}. Add one in the settings, or choose the demo."
        )
    if found.api_key and found.api_key.startswith(CIPHERTEXT):
        raise ProviderNotConfigured(
            f"The stored key for {factory.label} can no longer be decrypted. Save it again."
        )
    return found


def from_environment(provider: str) -> Credentials | None:
    """Return the operator's credentials, which workspaces without their own use."""
    api_key, base_url = registry.credentials_from_environment(provider)
    if not registry.is_enough(provider, api_key, base_url):
        return None
    return Credentials(source=Source.ENVIRONMENT, api_key=api_key, base_url=base_url)


def forget(workspace_id: UUID, provider: str) -> None:
    """Drop the cached credentials, because the stored key has changed."""
    _recent.forget((workspace_id, provider))


def _load(owned: tuple[UUID, str]) -> Credentials | None:
    workspace_id, provider = owned
    key = ProviderKey.objects.for_workspace(workspace_id).filter(provider=provider).first()
    if key is None:
        return None
    return Credentials(
        source=Source.WORKSPACE, api_key=key.secret or None, base_url=key.base_url or None
    )


_recent: TimedCache[tuple[UUID, str], Credentials | None] = TimedCache(_load)

HINT_LENGTH = 4
#: The end of a shorter key would reveal too much of it.
SHORTEST_HINTED = 16
#: The timeouts in use, in seconds.
TIMEOUT_STEPS = (5.0, 15.0, 60.0, registry.TIMEOUT_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Status:
    """Whether a workspace can use a provider, and with whose key."""

    provider: str
    label: str
    needs_key: bool
    source: Source
    #: Whether the address is not the vendor's own.
    own_server: bool
    key: ProviderKey | None

    @property
    def configured(self) -> bool:
        return self.source is not Source.NONE


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of a connection test."""

    ok: bool
    error: str
    checked_at: datetime


def save_key(
    *,
    workspace_id: UUID,
    provider: str,
    api_key: str = "",
    base_url: str = "",
    by: User | None = None,
) -> ProviderKey:
    """Set or replace the workspace's key.

    Key and address are replaced together. Otherwise a member who may change the address could send
    another member's key there.
    """
    factory = registry.find_provider(provider)
    if not factory.needs_key:
        raise Invalid(f"{factory.label} does not need a key.")
    given = read_input(KeyInput, {"api_key": api_key, "base_url": base_url})
    if not registry.is_enough(provider, given.api_key, given.base_url):
        raise wrong_field("api_key", f"{factory.label} needs a key.")
    hinted = len(given.api_key) >= SHORTEST_HINTED
    key, _ = ProviderKey.objects.update_or_create(
        workspace_id=workspace_id,
        provider=provider,
        defaults={
            "secret": given.api_key or None,
            "base_url": given.base_url,
            "hint": given.api_key[-HINT_LENGTH:] if hinted else "",
            "checked_at": None,
            "check_error": "",
            "created_by": by,
        },
    )
    forget(workspace_id, provider)
    return key


def delete_key(*, workspace_id: UUID, provider: str) -> None:
    """Delete the workspace's key. The operator's key, if there is one, counts again."""
    deleted, _ = ProviderKey.objects.for_workspace(workspace_id).filter(provider=provider).delete()
    if not deleted:
        raise NotFound
    forget(workspace_id, provider)


def provider_for(
    workspace_id: UUID, provider_name: str, timeout: float = registry.TIMEOUT_SECONDS
) -> Provider:
    """Return the provider, ready to use. At most one query, and none for the demo.

    The timeout is rounded up to one of a few, because a client is cached for each.
    """
    found = credentials(workspace_id, provider_name)
    rounded = next((step for step in TIMEOUT_STEPS if step >= timeout), registry.TIMEOUT_SECONDS)
    return registry.build_provider(
        provider_name,
        api_key=found.api_key,
        base_url=found.base_url,
        timeout=rounded,
        http_client=found.http_client,
    )


def check(*, workspace_id: UUID, provider: str, model: str = "") -> Check:
    """Make one cheap call with the stored key, and record the result."""
    forget(workspace_id, provider)  # Another process may have saved the key a moment ago.
    found = credentials(workspace_id, provider)
    # The provider may be slow, and other threads need the database connection meanwhile.
    release_connection()
    error = ""
    try:
        registry.check_connection(
            provider, found.api_key, found.base_url, model, http_client=found.http_client
        )
    except Fault as fault:
        error = scrub(fault.detail, found.api_key or "")
    now = timezone.now()
    if found.source is Source.WORKSPACE:
        rows = ProviderKey.objects.for_workspace(workspace_id).filter(provider=provider)
        rows.update(checked_at=now, check_error=error)
    return Check(ok=not error, error=error, checked_at=now)


def statuses(workspace_id: UUID) -> dict[str, Status]:
    """Return every provider's status by name. One query."""
    keys = {
        key.provider: key for key in ProviderKey.objects.for_workspace(workspace_id).defer("secret")
    }
    return {name: _status(name, keys.get(name)) for name in registry.PROVIDERS}


def _status(provider: str, key: ProviderKey | None) -> Status:
    factory = registry.find_provider(provider)
    operator = from_environment(provider)
    if not factory.needs_key:
        source, base_url = Source.BUILT_IN, ""
    elif key:
        source, base_url = Source.WORKSPACE, key.base_url
    elif operator:
        source, base_url = Source.ENVIRONMENT, operator.base_url or ""
    else:
        source, base_url = Source.NONE, ""
    return Status(
        provider=provider,
        label=factory.label,
        needs_key=factory.needs_key,
        source=source,
        own_server=bool(base_url),
        key=key,
    )
