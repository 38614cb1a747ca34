"""Charges the time of sandboxes, each minute of each sandbox once, whoever counts it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Max
from django.utils import timezone

from tenants.ids import uuid7
from tenants.models import SandboxMinute

CHARGE = "SELECT sandbox_charge(%s, %s::uuid[], %s, %s, %s, %s, %s, %s)"
NOW = "SELECT date_trunc('minute', clock_timestamp())"
MINUTE = timedelta(minutes=1)
#: What nobody counted for longer than this is not charged any more.
LONGEST_GAP = timedelta(days=1)
KEPT = timedelta(days=3)


def charge_minutes(
    workspace_id: UUID,
    sandbox: str,
    *,
    first: datetime,
    count: int,
    note: str,
    owners: Sequence[UUID] = (),
) -> int:
    """Charge those of these minutes that were not, to every purse of these owners. How many they were.

    The workspace always pays.
    """
    price = settings.SANDBOX_MINUTE_PRICE
    if price <= 0 or count <= 0:
        return 0
    with connection.cursor() as cursor:
        paying = [workspace_id, *owners]
        cursor.execute(
            CHARGE,
            [workspace_id, paying, sandbox[:100], first, count, price, note[:200], uuid7()],
        )
        return int(cursor.fetchone()[0])


def this_minute() -> datetime:
    """By the clock of the database, which all nodes share."""
    with connection.cursor() as cursor:
        cursor.execute(NOW)
        return cursor.fetchone()[0]


def last_charged(sandboxes: Iterable[str]) -> dict[str, datetime]:
    """The newest minute of each that is charged already."""
    rows = SandboxMinute.objects.filter(sandbox__in=list(sandboxes)).order_by()
    return dict(rows.values_list("sandbox").annotate(newest=Max("minute")))


def uncharged(newest: datetime | None, now: datetime) -> tuple[datetime, int]:
    """From which minute on a running sandbox owes, and how many: also those nobody counted."""
    first = max(newest + MINUTE, now - LONGEST_GAP) if newest else now
    return first, int((now - first) / MINUTE) + 1


def forget_old_minutes() -> int:
    """No minute that is this old is charged again, so nobody asks for it."""
    return SandboxMinute.objects.filter(minute__lt=timezone.now() - KEPT).delete()[0]
