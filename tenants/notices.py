"""Tells the admins of a workspace about something: in their inboxes, and by mail once it holds."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction

from tenants import inbox
from tenants.models import InboxItem, Membership

log = structlog.get_logger(__name__)
ADMINS = (Membership.Role.OWNER, Membership.Role.ADMIN)


@transaction.atomic
def tell_admins(workspace_id: UUID, *, title: str, text: str, link: str) -> None:
    """A warning for each admin, in the caller's transaction; a mail after its commit."""
    admins = Membership.objects.for_workspace(workspace_id).filter(
        role__in=ADMINS, user__is_active=True
    )
    people = list(admins.values_list("user_id", "user__email"))
    for user_id, _ in people:
        inbox.put(
            workspace_id,
            title=title,
            body=text,
            kind=InboxItem.Kind.WARNING,
            user_id=user_id,
            link=link,
        )
    addresses = [email for _, email in people]
    transaction.on_commit(partial(_mail, title, text, f"{settings.PUBLIC_URL}{link}", addresses))


def _mail(title: str, text: str, address: str, people: list[str]) -> None:
    """Each admin alone, so that none learns the others' addresses. A failing server is only noted."""
    for email in people:
        try:
            send_mail(title, f"{text}\n\n{address}\n", None, [email])
        except OSError as error:
            log.warning("notice_not_mailed", error=str(error))
