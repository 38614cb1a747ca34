"""Who acts, for which workspace, and whether they may. Every door asks `authorise`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias
from uuid import UUID

from config.faults import Forbidden, NotFound, Unauthenticated
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
    """Anything that knows its workspace."""

    workspace_id: UUID


@dataclass(frozen=True, kw_only=True)
class Principal:
    """An identity at a door: a person or a key, acting in at most one workspace."""

    workspace_id: UUID | None = None
    user: User | None = None
    key: ApiKey | None = None
    verbs: frozenset[Verb] = frozenset()
    role: str = ""
    #: The key of the browser session that a person is signed in with.
    browser: str = field(default="", repr=False)

    @property
    def is_authenticated(self) -> bool:
        return self.user is not None or self.key is not None

    @property
    def user_id(self) -> UUID | None:
        """The person who acts, or who made the key that does."""
        return self.user.pk if self.user else None

    @property
    def key_id(self) -> UUID | None:
        return self.key.pk if self.key else None

    @property
    def name(self) -> str:
        """How logs and histories name this identity."""
        if self.key:
            return f"key {self.key.prefix}"
        return self.user.email if self.user else "nobody"

    @property
    def spoken_name(self) -> str:
        """How this identity is named to people of the same workspace."""
        return self.user.display_name if self.user and not self.key else self.name

    def may(self, verb: Verb) -> bool:
        return verb in self.verbs


NOBODY = Principal()


def principal_of_key(key: ApiKey) -> Principal:
    """A key acts in its own workspace, in the name of whoever made it."""
    return Principal(
        workspace_id=key.workspace_id,
        user=key.created_by,
        key=key,
        verbs=SCOPE_VERBS[key.scope],
        role=f"key:{key.scope}",
    )


def principal_of_user(user: User, workspace_id: UUID | None) -> Principal:
    """A person acts in the workspace they chose, else in the first they joined."""
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
    """Let this identity do this to that thing, or raise. Answers with the acting workspace.

    A foreign thing is as absent as one that does not exist; only then is the verb looked at.
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


def _lack(principal: Principal, verb: Verb) -> str:
    return f"This needs the right to {verb}; {principal.name} has not got it here."


def _remedy(principal: Principal, verb: Verb) -> str:
    """Who has the right that this identity lacks: the least of the scopes or roles with it."""
    if principal.key is None:
        roles = [role for role, verbs in ROLE_VERBS.items() if verb in verbs]
        return f"A member with the role {roles[0]} has."
    scopes = [scope for scope, verbs in SCOPE_VERBS.items() if verb in verbs]
    return f"Use a key with the scope {scopes[0]}." if scopes else "Only an owner who signs in has."
