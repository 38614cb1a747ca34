"""The inbox: messages of agents and the product to members, who has read them, and warnings for admins."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.core.mail import send_mail
from django.db import connection, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from core import channel_layer
from core.exceptions import Forbidden, NotFound
from core.ids import uuid7
from core.text import reveal
from tenants.access import Principal
from tenants.billing.credits import claim_low_purses
from tenants.billing.spending import dollars
from tenants.models import InboxItem, InboxRead, Membership, Webhook
from tenants.models.notifications import InboxQuerySet
from tenants.notifications.mail import link_to
from tenants.notifications.webhooks import announce, moment

log = structlog.get_logger(__name__)

ADMINS = (Membership.Role.OWNER, Membership.Role.ADMIN)
LONGEST_TITLE, LONGEST_BODY = 200, 20_000
#: Only the newest items are counted, so that the cost stays bounded.
COUNTED = 200
AT_ONCE = 5_000
UNREAD = """
SELECT count(*) FROM (
  SELECT id FROM inbox_items WHERE workspace_id = %s AND (user_id IS NULL OR user_id = %s)
   ORDER BY created_at DESC LIMIT %s) i
 WHERE NOT EXISTS (SELECT 1 FROM inbox_reads r WHERE r.item_id = i.id AND r.user_id = %s)
"""


def inbox_group(workspace_id: UUID) -> str:
    """Return the channel group that is notified of changes."""
    return f"inbox.{workspace_id}"


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
    """Add an item for one member, or for all. A repeated dedupe key returns the first item."""
    if user_id and not Membership.objects.for_workspace(workspace_id).filter(user=user_id).exists():
        raise NotFound("This user is not a member of the workspace.")
    fields = {
        "id": uuid7(),
        "user_id": user_id,
        "kind": kind,
        "title": reveal(" ".join(title.split()))[:LONGEST_TITLE] or "Message",
        "body": body[:LONGEST_BODY],
        "link": own_path(link[:500]),
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
        _publish(item)
    return item


def own_path(link: str) -> str:
    """Return the link if it is a path of the product, else an empty string.

    Browsers treat `//` and `/\\` as other hosts.
    """
    stays = link.startswith("/") and url_has_allowed_host_and_scheme(link, allowed_hosts=None)
    return link if stays else ""


def _publish(item: InboxItem) -> None:
    channel_layer.send(inbox_group(item.workspace_id), {"type": "inbox.changed"})
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
    """Return the items that the caller may read, with `is_read`."""
    person = principal.user_id
    return InboxItem.objects.for_workspace(principal.workspace_id).for_person(person)


def find_item(principal: Principal, item_id: UUID) -> InboxItem:
    return items_of(principal).find(pk=item_id)


def unread_count(workspace_id: UUID, user_id: UUID) -> int:
    with connection.cursor() as cursor:
        cursor.execute(UNREAD, [workspace_id, user_id, COUNTED, user_id])
        return int(cursor.fetchone()[0])


def mark(principal: Principal, item: InboxItem, *, read: bool) -> None:
    """Mark an item as read or unread. Repeating it changes nothing."""
    user = _reader(principal)
    if read:
        InboxRead.objects.bulk_create([InboxRead(item=item, user_id=user)], ignore_conflicts=True)
    else:
        InboxRead.objects.filter(item=item, user_id=user).delete()
    channel_layer.send(inbox_group(item.workspace_id), {"type": "inbox.changed"})


def mark_all(principal: Principal, ids: Collection[UUID] | None = None) -> int:
    """Mark all items, or the given ones, as read. Return how many were unread."""
    user = _reader(principal)
    items = items_of(principal)
    if ids is not None:
        items = items.filter(pk__in=ids)
        if items.count() < len(set(ids)):
            raise NotFound
    unread = items.filter(is_read=False).values_list("pk", flat=True)
    rows = [InboxRead(item_id=pk, user_id=user) for pk in unread]
    InboxRead.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1000)
    if rows and principal.workspace_id:
        channel_layer.send(inbox_group(principal.workspace_id), {"type": "inbox.changed"})
    return len(rows)


def _reader(principal: Principal) -> UUID:
    if principal.user is None:
        raise Forbidden("Only users have an inbox, and this API key belongs to no user.")
    return principal.user.pk


def forget_old_items() -> int:
    """Delete a batch of items older than INBOX_KEEP_DAYS, and return how many."""
    before = timezone.now() - timedelta(days=settings.INBOX_KEEP_DAYS)
    ids = InboxItem.objects.filter(created_at__lt=before).order_by("created_at")
    deleted, _ = InboxItem.objects.filter(
        pk__in=list(ids.values_list("pk", flat=True)[:AT_ONCE])
    ).delete()
    return deleted


# ── Warnings for admins ──────────────────────────────────────────────────────


@transaction.atomic
def tell_admins(workspace_id: UUID, *, title: str, text: str, link: str) -> None:
    """Put a warning into each admin's inbox in this transaction, and e-mail it after the commit."""
    admins = Membership.objects.for_workspace(workspace_id).filter(
        role__in=ADMINS, user__is_active=True
    )
    people = list(admins.values_list("user_id", "user__email"))
    for user_id, _ in people:
        put(
            workspace_id,
            title=title,
            body=text,
            kind=InboxItem.Kind.WARNING,
            user_id=user_id,
            link=link,
        )
    addresses = [email for _, email in people]
    transaction.on_commit(partial(_mail, title, text, link_to(link), addresses))


def _mail(title: str, text: str, address: str, people: list[str]) -> None:
    """E-mail each admin separately, so that addresses stay private. Only log a failing server."""
    for email in people:
        try:
            send_mail(reveal(title), f"{reveal(text)}\n\n{address}\n", None, [email])
        except OSError as error:
            log.warning("notice_not_mailed", error=str(error))


@transaction.atomic
def tell_low_credits() -> int:
    """Warn workspaces that are low on credits, and return how many. The supervisor calls this."""
    purses = claim_low_purses()
    for purse in purses:
        left = purse.balance
        announce(
            purse.workspace_id, "credits.low", {"balance": str(left), "granted": str(purse.ceiling)}
        )
        tell_admins(
            purse.workspace_id,
            title="Credits are running low" if left > 0 else "No credits left",
            text=f"{purse.workspace.name} has {dollars(left)} left. Agents stop when no credits are left. "
            "The operator of this installation can add credits.",
            link="/usage/",
        )
    return len(purses)


def tell_switched_off(webhook: Webhook) -> None:
    """Warn the admins that a webhook was disabled, in the caller's transaction."""
    tell_admins(
        webhook.workspace_id,
        title="A webhook was disabled",
        text=f"`{webhook.url}` receives no more events. {webhook.disabled_reason}\n\n"
        "Fix the endpoint, then enable the webhook again.",
        link=reverse("webhook", args=[webhook.pk]),
    )
