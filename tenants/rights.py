"""Whether an identity that was let in once still holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from django.utils.crypto import constant_time_compare

from config.faults import Unauthenticated
from tenants.access import ROLE_VERBS, Principal, principal_of_key
from tenants.models import ApiKey, Membership, User


def renewed(principal: Principal) -> Principal:
    """The same identity with the rights it has now."""
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


def revoked(principals: Collection[Principal]) -> set[Principal]:
    """Those who may no longer read, found in a few queries however many there are."""
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
    """The browser sessions that are still open, and the empty one of who came by none.

    Who signed out, or whose password was changed since, is in no longer.
    """
    keys = {principal.session_key for principal in principals} - {""}
    if not keys:
        return {""}
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=Now())
    decoded = {row.session_key: row.get_decoded() for row in rows}
    # One that nobody is signed in by holds no person.
    stored = {key: kept for key, kept in decoded.items() if SESSION_KEY in kept}
    people = User.objects.in_bulk({kept[SESSION_KEY] for kept in stored.values()})
    named = {str(pk): person for pk, person in people.items()}
    return {"", *(key for key, kept in stored.items() if _made_by(kept, named))}


def _made_by(kept: dict[str, str], people: dict[str, User]) -> bool:
    """Whether a session was made with the password that its person has now."""
    person = people.get(kept[SESSION_KEY])
    if person is None:
        return False
    known = (person.get_session_auth_hash(), *person.get_session_auth_fallback_hash())
    return any(constant_time_compare(kept.get(HASH_SESSION_KEY, ""), one) for one in known)
