"""Workspaces and their members: rows, invitations, roles, removing and leaving.

`orchestrator.workspaces` adds the contents of a new workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from secrets import token_hex
from uuid import UUID

from django.core.mail import send_mail
from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.text import slugify

from core.exceptions import Conflict, Forbidden, Invalid, NotFound
from core.ids import digest, new_token
from tenants.access import Principal, authorise
from tenants.exceptions import LastOwner, LinkExpired
from tenants.keys import revoke_keys_of
from tenants.models import Invitation, Membership, User, Workspace
from tenants.notifications.mail import book_invitation
from tenants.quotas import INVITATIONS, check_quota

INVITATION_LIFE = timedelta(days=7)


@transaction.atomic
def insert_workspace(*, name: str, owner: User | None) -> Workspace:
    """Insert an empty workspace and the membership of its owner."""
    name = name.strip()
    if not name:
        raise Invalid("A workspace needs a name.")
    slug = slugify(name)[:80] or "workspace"
    if Workspace.objects.filter(slug=slug).exists():
        slug = f"{slug}-{token_hex(3)}"
    workspace = Workspace.objects.create(name=name[:80], slug=slug, created_by=owner)
    if owner:
        Membership.objects.create(
            workspace=workspace, user=owner, role=Membership.Role.OWNER, created_by=owner
        )
    return workspace


def find_workspace(name: str) -> Workspace | None:
    """Find a workspace by its slug, or else the oldest one with exactly this name."""
    by_slug = Workspace.objects.filter(slug=name).first()
    return by_slug or Workspace.objects.filter(name=name).order_by("created_at").first()


def first_owner(workspace_id: UUID) -> User | None:
    """Return the oldest owner, in whose name commands on this machine act."""
    owners = Membership.objects.for_workspace(workspace_id).filter(role=Membership.Role.OWNER)
    eldest = owners.select_related("user").order_by("created_at", "pk").first()
    return eldest.user if eldest else None


def is_owned_by_staff(workspace_id: UUID) -> bool:
    """Return whether an owner of the workspace is staff of this installation.

    A workspace that the operator created on the command line may have no member at all.
    """
    members = Membership.objects.for_workspace(workspace_id)
    staff = Q(role=Membership.Role.OWNER, user__is_staff=True, user__is_active=True)
    if members.filter(staff).exists():
        return True
    unowned = Workspace.objects.filter(pk=workspace_id, created_by=None)
    return unowned.exists() and not members.exists()


@transaction.atomic
def delete_workspace(workspace: Workspace) -> None:
    """Delete a workspace with all its rows."""
    with connection.cursor() as cursor:
        # The log refuses DELETE except for the workspace that this transaction names here.
        cursor.execute("SELECT set_config('switchyard.erasing', %s, true)", [str(workspace.pk)])
    workspace.delete()


# ── Members ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class SentInvitation:
    """An invitation with the only copy of its token."""

    invitation: Invitation
    token: str


def _check_may_grant(principal: Principal, role: str) -> None:
    """Raise unless the role exists and the principal may grant it: only owners make owners."""
    if role not in Membership.Role.values:
        raise Invalid(f"A role is one of {', '.join(Membership.Role.values)}.")
    if role == Membership.Role.OWNER and not principal.may("own"):
        raise Forbidden("Only an owner can make someone an owner.")


@transaction.atomic
def invite(principal: Principal, *, email: str, role: str) -> SentInvitation:
    """Create an invitation, which the caller mails. A second one to the same address replaces it."""
    workspace_id = authorise(principal, "admin")
    _check_may_grant(principal, role)
    email = email.strip().lower()
    if Membership.objects.filter(workspace_id=workspace_id, user__email=email).exists():
        raise Conflict("This person is already a member.")
    book_invitation(workspace_id, to=email, by=principal.user)
    token = new_token()
    pending = Invitation.objects.for_workspace(workspace_id).filter(accepted_at=None)
    pending.filter(email=email).delete()
    check_quota(workspace_id, INVITATIONS, pending.filter(expires_at__gt=Now()))
    invitation = Invitation.objects.create(
        workspace_id=workspace_id,
        email=email,
        role=role,
        digest=digest(token),
        expires_at=timezone.now() + INVITATION_LIFE,
        created_by=principal.user,
    )
    return SentInvitation(invitation=invitation, token=token)


def mail_invitation(invitation: Invitation, address: str) -> None:
    """Mail the link. The invitation stays valid if the mail server fails."""
    workspace = Workspace.objects.get(pk=invitation.workspace_id)
    send_mail(
        f"Join {workspace.name} on Switchyard",
        f"You have been invited to the workspace {workspace.name} as {invitation.role}.\n\n"
        f"{address}\n\nThe link works for seven days.",
        None,
        [invitation.email],
        fail_silently=True,
    )


def find_invitation(token: str) -> Invitation:
    """Return the open invitation with this token, or raise LinkExpired."""
    pending = Invitation.objects.filter(accepted_at=None, expires_at__gt=Now())
    invitation = pending.filter(digest=digest(token)).select_related("workspace").first()
    if invitation is None:
        raise LinkExpired("This invitation has been used, withdrawn or has expired.")
    return invitation


@transaction.atomic
def accept_invitation(token: str, user: User) -> Membership:
    """Make the user a member. They may use another address than the invited one."""
    find_invitation(token)
    taken = Invitation.objects.filter(digest=digest(token), accepted_at=None)
    invitation = taken.select_for_update().first()
    if invitation is None:
        raise LinkExpired
    taken.update(accepted_at=Now())
    membership, _ = Membership.objects.get_or_create(
        workspace_id=invitation.workspace_id, user=user, defaults={"role": invitation.role}
    )
    return membership


def withdraw_invitation(principal: Principal, invitation_id: UUID) -> None:
    workspace_id = authorise(principal, "admin")
    invitations = Invitation.objects.for_workspace(workspace_id).filter(accepted_at=None)
    deleted, _ = invitations.filter(pk=invitation_id).delete()
    if not deleted:
        raise NotFound


@transaction.atomic
def change_role(principal: Principal, membership_id: UUID, role: str) -> Membership:
    membership = _lock_membership(principal, membership_id)
    authorise(principal, "admin", membership)
    _check_may_grant(principal, role)
    if membership.role == Membership.Role.OWNER and role != Membership.Role.OWNER:
        _check_may_grant(principal, Membership.Role.OWNER)
        _check_another_owner(membership)
    membership.role = role
    membership.save(update_fields=["role"])
    return membership


@transaction.atomic
def remove_member(principal: Principal, membership_id: UUID) -> None:
    """Remove a member, or leave. The keys that they made are revoked, as they know the secrets."""
    membership = _lock_membership(principal, membership_id)
    leaving = principal.user is not None and membership.user_id == principal.user.pk
    authorise(principal, "read" if leaving and not principal.key else "admin", membership)
    if membership.role == Membership.Role.OWNER:
        if not leaving:
            _check_may_grant(principal, Membership.Role.OWNER)
        _check_another_owner(membership)
    revoke_keys_of(membership.user_id, workspace_id=membership.workspace_id)
    membership.delete()


def _lock_membership(principal: Principal, membership_id: UUID) -> Membership:
    """Return the membership and lock its workspace, so that two owners cannot leave at once."""
    workspace_id = authorise(principal, "read")
    Workspace.objects.select_for_update().get(pk=workspace_id)
    return Membership.objects.for_workspace(workspace_id).find(pk=membership_id)


def _check_another_owner(membership: Membership) -> None:
    others = Membership.objects.for_workspace(membership.workspace_id).exclude(pk=membership.pk)
    if not others.filter(role=Membership.Role.OWNER).exists():
        raise LastOwner
