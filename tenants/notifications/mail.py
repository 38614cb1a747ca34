"""E-mail: links in it, the hourly limits, and what agents may send to whom."""

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
from django.db.models import Q
from django.utils import timezone

from core.exceptions import Forbidden, Invalid, TooManyRequests
from tenants.exceptions import TooManyInvitations
from tenants.models import Membership, SentMail, User, Workspace

MOST_PATTERNS = 50
HOUR = timedelta(hours=1)
#: A pattern must name a whole domain, so `*` alone cannot allow every address.
_PATTERN = re.compile(r"[^\s@,;<>\"()]{1,64}@[a-z0-9-]+(\.[a-z0-9-]+)+")


def checked_patterns(patterns: Sequence[str]) -> list[str]:
    """Return the patterns in lower case, each once. Raise Invalid if one is not an address or `*@domain`."""
    cleaned = list(dict.fromkeys(p.strip().lower() for p in patterns if p.strip()))
    if len(cleaned) > MOST_PATTERNS:
        raise Invalid(f"At most {MOST_PATTERNS} addresses and domains can be allowed.")
    for pattern in cleaned:
        if not _PATTERN.fullmatch(pattern):
            raise Invalid(
                f"{pattern[:80]!r} is not an address. Write ann@example.com or *@example.com."
            )
    return cleaned


def checked_address(address: str) -> str:
    """Return a single address in lower case. Raise Invalid for anything else."""
    try:
        validate_email(address)
    except ValidationError:
        raise Invalid(f"{address[:100]!r} is not an e-mail address.") from None
    return address.lower()


def may_be_mailed(workspace: Workspace, address: str) -> bool:
    """Return whether an address belongs to a member or was allowed by an admin."""
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
    """Record that an e-mail is about to be sent, or raise if the workspace may not send it.

    Call it inside a transaction. The workspace's row is locked, so that simultaneous e-mails
    cannot exceed the limit.
    """
    address = checked_address(to)
    workspace = Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
    if not may_be_mailed(workspace, address):
        raise Forbidden(
            f"{address} is not a member of this workspace. An admin can allow the address or its "
            "domain under Settings → Workspace → E-mail."
        )
    sent = SentMail.objects.for_workspace(workspace_id).filter(
        kind=SentMail.Kind.AGENT, created_at__gt=timezone.now() - HOUR
    )
    if sent.count() >= settings.EMAILS_PER_HOUR:
        raise TooManyRequests(
            f"The agents of this workspace sent {settings.EMAILS_PER_HOUR} e-mails in the last "
            "hour, which is the limit. Try again later.",
            retry_after=3600,
        )
    return SentMail.objects.create(
        workspace_id=workspace_id,
        recipient=address,
        subject=subject[:200],
        session_id=session_id,
        agent_id=agent_id,
    )


def book_invitation(workspace_id: UUID, *, to: str, by: User | None) -> None:
    """Record that an invitation is about to be mailed, or raise TooManyInvitations.

    One person with many workspaces counts like one workspace. An invitation that is withdrawn or
    replaced still counts. Call it inside a transaction.
    """
    workspace = Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
    of_this = Q(workspace=workspace) | Q(created_by=by) if by else Q(workspace=workspace)
    recent = SentMail.objects.filter(
        of_this, kind=SentMail.Kind.INVITATION, created_at__gt=timezone.now() - HOUR
    )
    if recent.count() >= settings.INVITATIONS_PER_HOUR:
        raise TooManyInvitations(
            f"{settings.INVITATIONS_PER_HOUR} invitations were mailed in the last hour, which is "
            "the limit. Try again later.",
            retry_after=HOUR.total_seconds(),
        )
    SentMail.objects.create(
        workspace=workspace,
        kind=SentMail.Kind.INVITATION,
        recipient=to,
        subject=f"Join {workspace.name}",
        created_by=by,
    )


def send_booked(mail: SentMail, *, body: str, footer: str) -> None:
    """Send a recorded e-mail. The footer names its author, and a model cannot omit it."""
    EmailMessage(mail.subject, f"{body}\n\n-- \n{footer}\n", None, [mail.recipient]).send()


def forget_old_mails() -> int:
    """Delete rows that no longer count towards the limit, and return how many."""
    before = timezone.now() - timedelta(days=30)
    with transaction.atomic():
        deleted, _ = SentMail.objects.filter(created_at__lt=before).delete()
    return deleted


def link_to(path: str) -> str:
    """Return the address of a page for a mail. It does not depend on the request's Host header."""
    return f"{settings.PUBLIC_URL.rstrip('/')}{path}"


def mail_note() -> str:
    """Return where to read an e-mail if no mail server is set, else an empty string."""
    backend = settings.EMAIL_BACKEND
    if backend.endswith(("filebased.EmailBackend", "core.mail.PrivateFileBackend")):
        # Models and signed-out visitors read this too, so it names no path of the server.
        return "No mail server is set, so the message was written to DATA_DIR/mail on the server."
    if backend.endswith("console.EmailBackend"):
        return "No mail server is set, so the message was written to the server's console."
    return ""
