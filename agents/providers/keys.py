"""Saves, tests and resolves the keys of model providers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from pydantic import AfterValidator, Field, StringConstraints

from agents.exceptions import ProviderNotConfigured
from agents.models import ProviderKey, ProviderSettings
from agents.providers import registry
from agents.providers.base import Provider
from agents.providers.failures import scrub
from core.db import TimedCache, release_connection
from core.exceptions import Fault, Invalid, NotFound
from core.http import is_loopback
from core.validation import Input, read_input, wrong_field
from tenants.models import User
from tenants.workspaces import is_owned_by_staff

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
    #: Whether the operator typed the address of a server on this machine.
    is_local: bool = False

    @property
    def http_client(self) -> Client | None:
        """Return a client that connects to public addresses only, if a member typed the address."""
        if self.source is not Source.WORKSPACE or not self.base_url or self.is_local:
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
    found = _recent.get((workspace_id, provider)) or operator_credentials(workspace_id, provider)
    if found is None:
        raise ProviderNotConfigured(
            f"No key is set for {factory.label}. Add one in the settings, or choose the demo."
        )
    if found.api_key and found.api_key.startswith(CIPHERTEXT):
        raise ProviderNotConfigured(
            f"The stored key for {factory.label} can no longer be decrypted. Save it again."
        )
    return found


def operator_credentials(workspace_id: UUID, provider: str) -> Credentials | None:
    """Return the operator's credentials, if this workspace may use them."""
    found = from_environment(provider)
    return found if found and may_use_operator_keys(workspace_id) else None


def may_use_operator_keys(workspace_id: UUID) -> bool:
    """Return whether the keys of the environment serve this workspace, as OPERATOR_KEYS says."""
    if settings.OPERATOR_KEYS == "staff":
        return _is_of_staff.get(workspace_id)
    return bool(settings.OPERATOR_KEYS == "all")


def spends_operators_money(workspace_id: UUID, provider: str) -> bool:
    """Return whether a workspace of tenants calls a provider with the operator's key."""
    return (
        settings.OPERATOR_KEYS == "all"
        and from_environment(provider) is not None
        and _recent.get((workspace_id, provider)) is None
        and not _is_of_staff.get(workspace_id)
    )


def from_environment(provider: str) -> Credentials | None:
    """Return the operator's credentials."""
    api_key, base_url = registry.credentials_from_environment(provider)
    if not registry.is_enough(provider, api_key, base_url):
        return None
    return Credentials(source=Source.ENVIRONMENT, api_key=api_key, base_url=base_url)


def forget(workspace_id: UUID, provider: str) -> None:
    """Drop the cached credentials, because the stored key has changed."""
    _recent.forget((workspace_id, provider))


def _load(owned: tuple[UUID, str]) -> Credentials | None:
    workspace_id, provider = owned
    rows = ProviderKey.objects.for_workspace(workspace_id).filter(provider=provider)
    key = rows.select_related("created_by").first()
    if key is None:
        return None
    return Credentials(
        source=Source.WORKSPACE,
        api_key=key.secret or None,
        base_url=key.base_url or None,
        is_local=_is_operators_own(key),
    )


_recent: TimedCache[tuple[UUID, str], Credentials | None] = TimedCache(_load)
#: Staff and owners change rarely, so this is asked less often than for keys.
_is_of_staff: TimedCache[UUID, bool] = TimedCache(is_owned_by_staff, seconds=60)

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
    #: Whether the operator has a key that does not serve this workspace.
    is_withheld: bool = False

    @property
    def configured(self) -> bool:
        return self.source is not Source.NONE

    @property
    def presets(self) -> Sequence[ModelServer]:
        """Return known servers with the provider's API."""
        return PRESETS.get(self.provider, ())


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
    _forget_models(workspace_id, provider, given.base_url)
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


def _forget_models(workspace_id: UUID, provider: str, base_url: str) -> None:
    """Forget the models of another server, and what was set for them."""
    keys = ProviderKey.objects.for_workspace(workspace_id).filter(provider=provider)
    if keys.exclude(base_url=base_url).exists():
        rows = ProviderSettings.objects.for_workspace(workspace_id).filter(provider=provider)
        rows.update(listed={}, listed_at=None, facts={})


def delete_key(*, workspace_id: UUID, provider: str) -> None:
    """Delete the workspace's key. The operator's key counts again, if it may be used."""
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
    """Return every provider's status by name. One query, and one more if the operator has keys."""
    keys = {
        key.provider: key for key in ProviderKey.objects.for_workspace(workspace_id).defer("secret")
    }
    return {name: _status(workspace_id, name, keys.get(name)) for name in registry.PROVIDERS}


def _status(workspace_id: UUID, provider: str, key: ProviderKey | None) -> Status:
    factory = registry.find_provider(provider)
    operator = None if key else operator_credentials(workspace_id, provider)
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
        is_withheld=source is Source.NONE and from_environment(provider) is not None,
    )


# ── Known model servers ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ModelServer:
    """A model server that usually has this address."""

    label: str
    base_url: str


#: Servers on this machine that are looked for.
LOCAL_SERVERS = (
    ModelServer(label="Ollama", base_url="http://127.0.0.1:11434/v1"),
    ModelServer(label="llama.cpp", base_url="http://127.0.0.1:8080/v1"),
)
#: Not looked for: its usual port is also the usual one of this web server.
VLLM = ModelServer(label="vLLM", base_url="http://127.0.0.1:8000/v1")
#: The addresses to choose from, by provider.
PRESETS = {
    "openai": (
        *LOCAL_SERVERS,
        VLLM,
        ModelServer(label="OpenRouter", base_url="https://openrouter.ai/api/v1"),
    )
}
#: A server on this machine answers at once or is busy starting.
PROBE_SECONDS = 0.5


def is_personal() -> bool:
    """Return whether one person runs this for themselves: reachable from this machine only, and the
    only account is the operator's.
    """
    if not is_loopback(settings.HOST):
        return False
    # Two accounts are enough to know.
    return list(User.objects.filter(is_active=True).values_list("is_staff", flat=True)[:2]) == [
        True
    ]


def find_local_servers() -> list[ModelServer]:
    """Return the model servers that answer on this machine now."""
    with ThreadPoolExecutor(len(LOCAL_SERVERS)) as pool:
        answers = list(pool.map(_answers, LOCAL_SERVERS))
    return [server for server, answered in zip(LOCAL_SERVERS, answers, strict=True) if answered]


def _answers(server: ModelServer) -> bool:
    from agents.providers.http import shared_client

    try:
        response = shared_client().get(f"{server.base_url}/models", timeout=PROBE_SECONDS)
        return response.is_success and isinstance(response.json().get("data"), list)
    except Exception:  # noqa: BLE001 (another program may answer with anything)
        return False


def _is_operators_own(key: ProviderKey) -> bool:
    """Return whether the operator chose a model server on this machine.

    Other members must not reach into the machine: what they type is checked like any address.
    """
    known = {server.base_url for server in (*LOCAL_SERVERS, VLLM)}
    is_staff = bool(key.created_by and key.created_by.is_staff)
    return key.base_url in known and is_staff and is_loopback(settings.HOST)
