"""Warnings for the admins of a workspace, in their inboxes and by e-mail."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.urls import reverse

from tenants.billing.credits import claim_low_purses
from tenants.billing.spending import dollars
from tenants.models import InboxItem, Membership, Webhook
from tenants.notifications import inbox
from tenants.notifications.webhooks import announce

log = structlog.get_logger(__name__)
ADMINS = (Membership.Role.OWNER, Membership.Role.ADMIN)


@transaction.atomic
def tell_admins(workspace_id: UUID, *, title: str, text: str, link: str) -> None:
    """Put a warning into each admin's inbox in this transaction, and e-mail it after the commit."""
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
    """E-mail each admin separately, so that addresses stay private. Only log a failing server."""
    for email in people:
        try:
            send_mail(title, f"{text}\n\n{address}\n", None, [email])
        except OSError as error:
            log.warning("notice_not_mailed", error=str(error))


@transaction.atomic
def tell_low_credits() -> int:
    """Warn workspaces that are low on credits, and return how many. The supervisor calls this."""
    purses = claim_low_purses()
    for purse in purses:
        left = purse.ceiling - purse.spent
        announce(
            purse.workspace_id, "credits.low", {"balance": str(left), "granted": str(purse.ceiling)}
        )
        tell_admins(
            purse.workspace_id,
            title="Credits are running low" if left > 0 else "No credits left",
            text=f"{purse.workspace.name} has {dollars(left)} left. Agents stop when no credits are left. "
            "An owner can add credits.",
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
