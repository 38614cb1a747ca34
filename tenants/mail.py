"""Mail that agents send: to whom, how often, and where it goes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from config.faults import Forbidden, Invalid, TooManyRequests
from tenants.models import Membership, SentMail, Workspace

MOST_PATTERNS = 50
#: Nobody could be meant by `*` alone but everybody, so a pattern names a domain whole.
_PATTERN = re.compile(r"[^\s@,;<>\"()]{1,64}@[a-z0-9-]+(\.[a-z0-9-]+)+")


def checked_patterns(patterns: Sequence[str]) -> list[str]:
    """Addresses, and `*@example.com` for all of a domain."""
    known = list(dict.fromkeys(one.strip().lower() for one in patterns if one.strip()))
    if len(known) > MOST_PATTERNS:
        raise Invalid(f"At most {MOST_PATTERNS} addresses and domains can be allowed.")
    for one in known:
        if not _PATTERN.fullmatch(one):
            raise Invalid(f"{one[:80]!r} is no address. Write ann@example.com or *@example.com.")
    return known


def checked_address(address: str) -> str:
    """One address and nothing else: no name, no second one, no line break."""
    try:
        validate_email(address)
    except ValidationError:
        raise Invalid(f"{address[:100]!r} is not an e-mail address.") from None
    return address.lower()


def may_be_mailed(workspace: Workspace, address: str) -> bool:
    """Members, and whom an admin allowed."""
    members = Membership.objects.for_workspace(workspace.pk).filter(user__is_active=True)
    return members.filter(user__email__iexact=address).exists() or any(
        fnmatchcase(address, pattern) for pattern in workspace.mail_allowed
    )


def book_mail(
    workspace_id: UUID,
    *,
    to: str,
    subject: str,
    session_id: UUID | None = None,
    agent_id: UUID | None = None,
) -> SentMail:
    """Write down that a mail is about to go out, within what the workspace may send.

    Called inside a transaction. The workspace's row is locked, so that of two mails at once only
    one can be the last allowed.
    """
    address = checked_address(to)
    workspace = Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
    if not may_be_mailed(workspace, address):
        raise Forbidden(
            f"{address} is not a member of this workspace. An admin can allow the address or its "
            "domain under Settings → Workspace → E-mail."
        )
    hour = timezone.now() - timedelta(hours=1)
    sent = SentMail.objects.for_workspace(workspace_id).filter(created_at__gt=hour)
    if sent.count() >= settings.EMAILS_PER_HOUR:
        raise TooManyRequests(
            f"The agents of this workspace have sent {settings.EMAILS_PER_HOUR} mails within the "
            "last hour, and may send no more for now.",
            retry_after=3600,
        )
    return SentMail.objects.create(
        workspace_id=workspace_id,
        recipient=address,
        subject=subject[:200],
        session_id=session_id,
        agent_id=agent_id,
    )


def send_booked(mail: SentMail, *, body: str, footer: str) -> None:
    """Hand it to the mail server. The footer says who wrote it, which a model cannot leave out."""
    EmailMessage(mail.subject, f"{body}\n\n-- \n{footer}\n", None, [mail.recipient]).send()


def forget_old_mails() -> int:
    """What was sent is known from the ledger; these rows only count."""
    before = timezone.now() - timedelta(days=30)
    with transaction.atomic():
        gone, _ = SentMail.objects.filter(created_at__lt=before).delete()
    return gone
