"""What one workspace or one person may have, so that no tenant uses up what all of them share.

Each limit is a setting. It is checked where a thing is made, never while a message is accepted; the
queue of messages is limited by `lane_accept` itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db.models import Model, QuerySet

from core.db import prepared_rows
from tenants.exceptions import DatabaseQuotaReached, QuotaReached
from tenants.models import User, Workspace, WorkspaceStorage

FOLD = "SELECT storage_fold(%s, %s)"
FOLD_BATCH = 5_000
MEGABYTE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Quota:
    """A limit of a workspace: its setting, what it counts, and what makes room."""

    setting: str
    things: str
    remedy: str = "Remove one first."


KEYS = Quota(setting="KEYS_PER_WORKSPACE", things="API keys", remedy="Revoke one first.")
INVITATIONS = Quota(
    setting="INVITATIONS_PER_WORKSPACE", things="open invitations", remedy="Withdraw one first."
)
WEBHOOKS = Quota(setting="WEBHOOKS_PER_WORKSPACE", things="webhooks")
SCHEDULES = Quota(setting="SCHEDULES_PER_WORKSPACE", things="schedules")
TRIGGERS = Quota(setting="TRIGGERS_PER_WORKSPACE", things="triggers")


def check_quota(workspace_id: UUID, quota: Quota, rows: QuerySet[Model]) -> None:
    """Raise QuotaReached if the workspace has as many of these rows as it may have.

    Call it in the transaction that adds the row. The workspace is locked, so that simultaneous
    requests cannot exceed the limit.
    """
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
    most: int = getattr(settings, quota.setting)
    if rows.count() >= most:
        raise QuotaReached(f"A workspace has at most {most:,} {quota.things}. {quota.remedy}")


def check_database_room(workspace_id: UUID) -> None:
    """Raise DatabaseQuotaReached if the workspace stores as much as it may.

    Messages and model calls are checked by `purse_short`, in the statement that checks the credits.
    """
    if WorkspaceStorage.objects.filter(workspace_id=workspace_id, is_full=True).exists():
        raise DatabaseQuotaReached


def fold_storage() -> int:
    """Add what was stored since the last time to the sums of the workspaces."""
    quota = settings.WORKSPACE_DATABASE_MB * MEGABYTE or None
    folded = 0
    while batch := prepared_rows(FOLD, [FOLD_BATCH, quota])[0][0]:
        folded += batch
    return folded


def check_workspaces(owner: User) -> int:
    """Return how many workspaces a person has created, or raise QuotaReached if it is enough.

    One that they left still counts. Staff may create any number. Call it in the transaction that
    adds the workspace: the person's row is locked.
    """
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)
    created = Workspace.objects.filter(created_by=owner).count()
    if created >= settings.WORKSPACES_PER_PERSON and not owner.is_staff:
        raise QuotaReached(
            f"A person can create at most {settings.WORKSPACES_PER_PERSON:,} workspaces. "
            "Ask the operator of this installation for more."
        )
    return created
