"""The inbox: what agents and the product tell people, and who has read it."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from config import live
from config.faults import Forbidden, NotFound
from tenants.access import Principal
from tenants.ids import uuid7
from tenants.models import InboxItem, InboxRead, Membership
from tenants.models.inbox import InboxQuerySet
from tenants.webhooks import announce, moment

LONGEST_TITLE, LONGEST_BODY = 200, 20_000
#: Only the newest items are looked at for the count, so that it costs the same for ever.
COUNTED = 200
AT_ONCE = 5_000
UNREAD = """
SELECT count(*) FROM (
  SELECT id FROM inbox_items WHERE workspace_id = %s AND (user_id IS NULL OR user_id = %s)
   ORDER BY created_at DESC LIMIT %s) i
 WHERE NOT EXISTS (SELECT 1 FROM inbox_reads r WHERE r.item_id = i.id AND r.user_id = %s)
"""


def group_name(workspace_id: UUID) -> str:
    """Whom a change is rung to."""
    return f"inbox.{workspace_id}"


def inside(link: str) -> str:
    """An address of this server, or none. A browser takes a backslash for a slash."""
    return link if link[:1] == "/" and link[1:2] not in {"/", "\\"} else ""


@transaction.atomic
def put(
    workspace_id: UUID,
    *,
    title: str,
    body: str = "",
    kind: str = InboxItem.Kind.NOTICE,
    session_id: UUID | None = None,
    agent_id: UUID | None = None,
    user_id: UUID | None = None,
    link: str = "",
    dedupe_key: str | None = None,
) -> InboxItem:
    """Tell one member, or everybody. With a key that was used before, the first item is answered."""
    if user_id and not Membership.objects.for_workspace(workspace_id).filter(user=user_id).exists():
        raise NotFound("Nobody in this workspace is meant by that.")
    fields = {
        "id": uuid7(),
        "user_id": user_id,
        "kind": kind,
        "title": " ".join(title.split())[:LONGEST_TITLE] or "Message",
        "body": body[:LONGEST_BODY],
        "link": inside(link[:500]),
        "session_id": session_id,
        "agent_id": agent_id,
    }
    if dedupe_key:
        item, made = InboxItem.objects.get_or_create(
            workspace_id=workspace_id, dedupe_key=dedupe_key, defaults=fields
        )
    else:
        item, made = InboxItem.objects.create(workspace_id=workspace_id, **fields), True
    item.refresh_from_db(fields=["created_at"])
    if made:
        _tell(item)
    return item


def _tell(item: InboxItem) -> None:
    live.send(group_name(item.workspace_id), {"type": "inbox.changed"})
    announce(
        item.workspace_id,
        "inbox.message",
        {
            "id": str(item.pk),
            "kind": str(item.kind),
            "title": item.title,
            "body": item.body,
            "link": item.link,
            "user": item.user_id and str(item.user_id),
            "session_id": item.session_id and str(item.session_id),
            "agent_id": item.agent_id and str(item.agent_id),
            "created_at": moment(item.created_at),
        },
    )


def items_of(principal: Principal) -> InboxQuerySet:
    """What this identity may read, with `is_read`."""
    person = principal.user_id
    return InboxItem.objects.for_workspace(principal.workspace_id).for_person(person)


def find_item(principal: Principal, item_id: UUID) -> InboxItem:
    found = items_of(principal).filter(pk=item_id).first()
    if found is None:
        raise NotFound
    return found


def unread_count(workspace_id: UUID, user_id: UUID) -> int:
    with connection.cursor() as cursor:
        cursor.execute(UNREAD, [workspace_id, user_id, COUNTED, user_id])
        return int(cursor.fetchone()[0])


def mark(principal: Principal, item: InboxItem, *, read: bool) -> None:
    """Twice is once, from any number of tabs."""
    user = _reader(principal)
    if read:
        InboxRead.objects.bulk_create([InboxRead(item=item, user_id=user)], ignore_conflicts=True)
    else:
        InboxRead.objects.filter(item=item, user_id=user).delete()
    live.send(group_name(item.workspace_id), {"type": "inbox.changed"})


def mark_all(principal: Principal) -> int:
    """Everything that is there now. Answers how many were unread."""
    user = _reader(principal)
    unread = items_of(principal).filter(is_read=False).values_list("pk", flat=True)
    rows = [InboxRead(item_id=pk, user_id=user) for pk in unread]
    InboxRead.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1000)
    if rows and principal.workspace_id:
        live.send(group_name(principal.workspace_id), {"type": "inbox.changed"})
    return len(rows)


def _reader(principal: Principal) -> UUID:
    if principal.user is None:
        raise Forbidden("Only a person reads an inbox; this key was made by nobody.")
    return principal.user.pk


def forget_old_items() -> int:
    """Erase items that are older than they are kept for, a bounded number at a time."""
    before = timezone.now() - timedelta(days=settings.INBOX_KEEP_DAYS)
    ids = InboxItem.objects.filter(created_at__lt=before).order_by("created_at")
    gone, _ = InboxItem.objects.filter(
        pk__in=list(ids.values_list("pk", flat=True)[:AT_ONCE])
    ).delete()
    return gone
