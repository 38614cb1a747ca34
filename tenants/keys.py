"""Issues, finds and revokes API keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from core.db import copy_row
from core.exceptions import Invalid, NotFound
from core.ids import digest, new_token
from core.notified_cache import NotifiedCache
from tenants.models import ApiKey, User
from tenants.quotas import KEYS, check_quota

PREFIX = "sy_"
TOUCH_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class IssuedKey:
    """A new key with the only copy of its secret."""

    key: ApiKey
    secret: str


@transaction.atomic
def issue_key(
    *,
    workspace_id: UUID,
    name: str,
    scope: str = ApiKey.Scope.RUN,
    expires_at: datetime | None = None,
    created_by: User | None = None,
) -> IssuedKey:
    """Create a key and return it with its secret, which is not stored."""
    if scope not in ApiKey.Scope.values:
        raise Invalid(f"A key's scope is one of {', '.join(ApiKey.Scope.values)}.")
    if expires_at and expires_at <= timezone.now():
        raise Invalid("A key must expire in the future.")
    valid = ApiKey.objects.for_workspace(workspace_id).filter(revoked_at=None)
    check_quota(workspace_id, KEYS, valid.exclude(expires_at__lte=Now()))
    secret = PREFIX + new_token()
    key = ApiKey.objects.create(
        workspace_id=workspace_id,
        name=name.strip() or "Unnamed key",
        prefix=secret[:10],
        digest=digest(secret),
        scope=scope,
        expires_at=expires_at,
        created_by=created_by,
    )
    key.refresh_from_db(fields=["created_at"])
    return IssuedKey(key=key, secret=secret)


def find_key(secret: str) -> ApiKey | None:
    """Return the valid key with this secret, with the user who made it."""
    return _find(digest(secret)) if secret.startswith(PREFIX) else None


def recent_key(secret: str) -> ApiKey | None:
    """Return the same as `find_key`, usually without a query, and record that the key was used.

    The database notifies every change of a key's rights, so a revoked key is refused at once. The
    caller gets its own copy.
    """
    if not secret.startswith(PREFIX):
        return None
    try:
        key = copy_row(_recent.get(digest(secret)))
    except NotFound:
        return None
    if key.expires_at and key.expires_at <= timezone.now():
        return None
    if key.created_by is not None:
        key._state.fields_cache["created_by"] = copy_row(key.created_by)
    return key


def _find(secret_digest: str) -> ApiKey | None:
    keys = ApiKey.objects.valid().select_related("created_by").order_by()
    return keys.filter(digest=secret_digest).first()


def _load(secret_digest: str) -> ApiKey:
    key = _find(secret_digest)
    if key is None:
        raise NotFound  # so that it is not cached
    touch(key)
    return key


def touch(key: ApiKey) -> None:
    """Record the time of use, at most once a minute, so that reading does not write every time."""
    now = timezone.now()
    if key.last_used_at is None or now - key.last_used_at > TOUCH_EVERY:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)


def revoke_key(*, workspace_id: UUID, key_id: UUID) -> None:
    """Revoke a key at once. Revoking it twice is harmless."""
    keys = ApiKey.objects.for_workspace(workspace_id).filter(pk=key_id)
    if not keys.exists():
        raise NotFound
    keys.filter(revoked_at=None).update(revoked_at=Now())
    transaction.on_commit(_recent.forget)


def revoke_keys_of(user_id: UUID, *, workspace_id: UUID | None = None) -> None:
    """Revoke every key that the user made, in this workspace or in all."""
    keys = ApiKey.objects.for_workspace(workspace_id) if workspace_id else ApiKey.objects.all()
    keys.filter(created_by=user_id, revoked_at=None).update(revoked_at=Now())
    transaction.on_commit(_recent.forget)


_recent: NotifiedCache[str, ApiKey] = NotifiedCache(
    "switchyard_access", _load, seconds=lambda: settings.KEY_CACHE_SECONDS
)
