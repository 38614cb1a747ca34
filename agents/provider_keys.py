"""The keys to model providers: saved, tested, and used for every model call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from agents.credentials import Source, credentials, forget, from_environment
from agents.inputs import read_input, wrong_field
from agents.key_input import KeyInput
from agents.models import ProviderKey
from agents.providers.base import Provider
from agents.providers.failures import scrub
from agents.providers.registry import (
    PROVIDERS,
    TIMEOUT_SECONDS,
    build_provider,
    check_connection,
    find_provider,
    is_enough,
)
from config.faults import Fault, Invalid, NotFound
from tenants.models import User
from tenants.off_loop import let_go

HINT_LENGTH = 4
#: The end of a shorter key would tell too much of it.
SHORTEST_HINTED = 16
#: Seconds of silence to bear, shortest first.
TIMEOUT_STEPS = (5.0, 15.0, 60.0, TIMEOUT_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Status:
    """Whether a workspace can use a provider, and by whose key."""

    provider: str
    label: str
    needs_key: bool
    source: Source
    #: The address is not the vendor's own.
    own_server: bool
    key: ProviderKey | None

    @property
    def configured(self) -> bool:
        return self.source is not Source.NONE


@dataclass(frozen=True, kw_only=True)
class Check:
    """How a test of the connection ended."""

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

    Key and address are replaced together: whoever may change the address must not be able to
    send somebody else's key there.
    """
    factory = find_provider(provider)
    if not factory.needs_key:
        raise Invalid(f"{factory.label} needs no key.")
    given = read_input(KeyInput, {"api_key": api_key, "base_url": base_url})
    if not is_enough(provider, given.api_key, given.base_url):
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
    """Forget the workspace's key. The environment's, if there is one, counts again."""
    deleted, _ = ProviderKey.objects.for_workspace(workspace_id).filter(provider=provider).delete()
    if not deleted:
        raise NotFound
    forget(workspace_id, provider)


def provider_for(
    workspace_id: UUID, provider_name: str, timeout: float = TIMEOUT_SECONDS
) -> Provider:
    """The provider, ready to be asked. At most one query, and none for the demo.

    The timeout is rounded up to one of a few, because a client is kept ready for each.
    """
    found = credentials(workspace_id, provider_name)
    patience = next((step for step in TIMEOUT_STEPS if step >= timeout), TIMEOUT_SECONDS)
    return build_provider(
        provider_name,
        api_key=found.api_key,
        base_url=found.base_url,
        timeout=patience,
        http_client=found.http_client,
    )


def check(*, workspace_id: UUID, provider: str, model: str = "") -> Check:
    """Make one cheap call with what is stored, and remember how it ended."""
    forget(workspace_id, provider)  # Another process may have saved the key a moment ago.
    found = credentials(workspace_id, provider)
    # The provider may take its time, and others want the connection meanwhile.
    let_go()
    error = ""
    try:
        check_connection(
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
    """Every provider by name, with what this workspace has for it. One query."""
    keys = {
        key.provider: key for key in ProviderKey.objects.for_workspace(workspace_id).defer("secret")
    }
    return {name: _status(name, keys.get(name)) for name in PROVIDERS}


def _status(provider: str, key: ProviderKey | None) -> Status:
    factory = find_provider(provider)
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
