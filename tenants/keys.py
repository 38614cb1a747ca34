"""Issues, finds and revokes API keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models.functions import Now
from django.utils import timezone

from core.exceptions import Invalid, NotFound
from core.ids import digest, new_token
from tenants.models import ApiKey, User

PREFIX = "sy_"
TOUCH_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class IssuedKey:
    """A new key with the only copy of its secret."""

    key: ApiKey
    secret: str


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
    """Return the valid key with this secret, with its workspace and the user who made it."""
    if not secret.startswith(PREFIX):
        return None
    keys = ApiKey.objects.valid().select_related("workspace", "created_by")
    return keys.filter(digest=digest(secret)).first()


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


def revoke_keys_of(user_id: UUID, *, workspace_id: UUID | None = None) -> None:
    """Revoke every key that the user made, in this workspace or in all."""
    keys = ApiKey.objects.for_workspace(workspace_id) if workspace_id else ApiKey.objects.all()
    keys.filter(created_by=user_id, revoked_at=None).update(revoked_at=Now())
