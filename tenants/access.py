"""Principals and their rights. Every view, endpoint and command calls `authorise`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias
from uuid import UUID

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from django.utils.crypto import constant_time_compare

from core.exceptions import Forbidden, NotFound, Unauthenticated
from tenants.exceptions import StaffOnly
from tenants.models import ApiKey, Membership, User

Verb: TypeAlias = Literal["read", "run", "build", "admin", "own"]

ROLE_VERBS: dict[str, frozenset[Verb]] = {
    Membership.Role.VIEWER: frozenset({"read"}),
    Membership.Role.BUILDER: frozenset({"read", "run", "build"}),
    Membership.Role.ADMIN: frozenset({"read", "run", "build", "admin"}),
    Membership.Role.OWNER: frozenset({"read", "run", "build", "admin", "own"}),
}
SCOPE_VERBS: dict[str, frozenset[Verb]] = {
    ApiKey.Scope.READ: frozenset({"read"}),
    ApiKey.Scope.RUN: frozenset({"read", "run"}),
    ApiKey.Scope.ADMIN: frozenset({"read", "run", "build", "admin"}),
}


class Owned(Protocol):
    """A row that belongs to a workspace."""

    workspace_id: UUID


@dataclass(frozen=True, kw_only=True)
class Principal:
    """A user or an API key that acts in at most one workspace."""

    workspace_id: UUID | None = None
    user: User | None = None
    key: ApiKey | None = None
    verbs: frozenset[Verb] = frozenset()
    role: str = ""
    #: The browser session of a user. Connections that outlive a request check it again.
    session_key: str = field(default="", repr=False)

    @property
    def is_authenticated(self) -> bool:
        return self.user is not None or self.key is not None

    @property
    def user_id(self) -> UUID | None:
        """The id of the user who acts, or who made the key that acts."""
        return self.user.pk if self.user else None

    @property
    def key_id(self) -> UUID | None:
        return self.key.pk if self.key else None

    @property
    def name(self) -> str:
        """The name of this principal in logs and histories."""
        if self.key:
            return f"key {self.key.prefix}"
        return self.user.email if self.user else "anonymous"

    @property
    def spoken_name(self) -> str:
        """The name of this principal for members of the same workspace."""
        return self.user.display_name if self.user and not self.key else self.name

    @property
    def is_staff(self) -> bool:
        """Whether this is the operator of the installation in a browser. Keys never are."""
        return self.key is None and self.user is not None and self.user.is_staff

    def may(self, verb: Verb) -> bool:
        return verb in self.verbs


ANONYMOUS = Principal()


def principal_of_key(key: ApiKey) -> Principal:
    """Return the principal of a valid key, which acts for the user who made it.

    The key has no right that this user has lost since.
    """
    rights = SCOPE_VERBS[key.scope]
    return Principal(
        workspace_id=key.workspace_id,
        user=key.created_by,
        key=key,
        verbs=rights & ROLE_VERBS[key.maker_role] if key.maker_role else rights,
        role=f"key:{key.scope}",
    )


def principal_of_user(user: User, workspace_id: UUID | None) -> Principal:
    """Return the principal of a user in the chosen workspace, or in the first one they joined."""
    memberships = Membership.objects.filter(user=user).order_by("created_at", "pk")
    chosen = memberships.filter(workspace_id=workspace_id).first() if workspace_id else None
    membership = chosen or memberships.first()
    if membership is None:
        return Principal(user=user)
    return Principal(
        workspace_id=membership.workspace_id,
        user=user,
        verbs=ROLE_VERBS[membership.role],
        role=membership.role,
    )


def authorise(principal: Principal, verb: Verb, thing: Owned | None = None) -> UUID:
    """Return the id of the acting workspace, or raise if the principal lacks the right.

    A row of another workspace raises NotFound, as if it did not exist; the verb is checked after.
    """
    if not principal.is_authenticated:
        raise Unauthenticated
    if principal.workspace_id is None:
        raise Forbidden("Join or create a workspace first.")
    if thing is not None and thing.workspace_id != principal.workspace_id:
        raise NotFound
    if not principal.may(verb):
        raise Forbidden(f"{_lack(principal, verb)} {_remedy(principal, verb)}")
    return principal.workspace_id


def authorise_staff(principal: Principal) -> UUID:
    """Return the id of the acting workspace, or raise unless its owner runs this installation."""
    workspace_id = authorise(principal, "own")
    if not principal.is_staff:
        raise StaffOnly
    return workspace_id


def _lack(principal: Principal, verb: Verb) -> str:
    return f"This needs the right to {verb}, which {principal.name} does not have here."


def _remedy(principal: Principal, verb: Verb) -> str:
    """Name the lowest role or scope that has the missing right."""
    if principal.key is None:
        roles = [role for role, verbs in ROLE_VERBS.items() if verb in verbs]
        return f"Ask a member with the role {roles[0]}."
    if verb in SCOPE_VERBS[principal.key.scope]:
        return "The user who made the key has lost that right. An admin can make a new key."
    scopes = [scope for scope, verbs in SCOPE_VERBS.items() if verb in verbs]
    return f"Use a key with the scope {scopes[0]}." if scopes else "Only a signed-in owner has it."


def refresh_principal(principal: Principal) -> Principal:
    """Return the same principal with its current rights, or raise Unauthenticated."""
    if principal.key:
        keys = ApiKey.objects.valid().select_related("created_by")
        key = keys.filter(pk=principal.key.pk).first()
        if key is None:
            raise Unauthenticated
        return principal_of_key(key)
    memberships = Membership.objects.for_workspace(principal.workspace_id)
    membership = memberships.filter(user=principal.user, user__is_active=True).first()
    if membership is None or not _signed_in([principal]) >= {principal.session_key}:
        raise Unauthenticated
    return replace(principal, verbs=ROLE_VERBS[membership.role], role=membership.role)


def find_revoked(principals: Collection[Principal]) -> set[Principal]:
    """Return the principals that may no longer read, in a fixed number of queries."""
    keys = {p.key.pk for p in principals if p.key}
    people = {p.user.pk for p in principals if p.user and not p.key}
    valid = set(ApiKey.objects.valid().filter(pk__in=keys).values_list("pk", flat=True))
    members = set(
        Membership.objects.filter(user__in=people, user__is_active=True).values_list(
            "user_id", "workspace_id"
        )
    )

    signed_in = _signed_in(principals)

    def holds(principal: Principal) -> bool:
        if principal.key:
            return principal.key.pk in valid
        return (
            principal.user is not None
            and (principal.user.pk, principal.workspace_id) in members
            and principal.session_key in signed_in
        )

    return {principal for principal in principals if not holds(principal)}


def _signed_in(principals: Iterable[Principal]) -> set[str]:
    """Return the keys of sessions that are still signed in, and "" for principals without one.

    Signing out or changing the password ends a session.
    """
    keys = {principal.session_key for principal in principals} - {""}
    if not keys:
        return {""}
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=Now())
    decoded = {row.session_key: row.get_decoded() for row in rows}
    # A session of an anonymous visitor holds no user.
    stored = {key: data for key, data in decoded.items() if SESSION_KEY in data}
    users = User.objects.in_bulk({data[SESSION_KEY] for data in stored.values()})
    by_id = {str(pk): user for pk, user in users.items()}
    return {"", *(key for key, data in stored.items() if _has_current_password(data, by_id))}


def _has_current_password(data: dict[str, str], users: dict[str, User]) -> bool:
    """Return whether the session was opened with the password that its user has now."""
    user = users.get(data[SESSION_KEY])
    if user is None:
        return False
    valid = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return any(constant_time_compare(data.get(HASH_SESSION_KEY, ""), each) for each in valid)
