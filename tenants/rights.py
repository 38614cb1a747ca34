"""Whether an identity that was let in once still holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session as BrowserSession
from django.utils import timezone
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
    if membership is None or not _is_signed_in(principal, people_behind({principal.browser})):
        raise Unauthenticated
    return replace(principal, verbs=ROLE_VERBS[membership.role], role=membership.role)


def people_behind(browsers: Collection[str]) -> dict[str, UUID]:
    """Who is signed in with which browser session: nobody who signed out since, or whose password
    was changed elsewhere."""
    rows = BrowserSession.objects.filter(
        session_key__in=[key for key in browsers if key], expire_date__gt=timezone.now()
    )
    said = {row.session_key: row.get_decoded() for row in rows}
    people = User.objects.in_bulk({one[SESSION_KEY] for one in said.values() if SESSION_KEY in one})
    by_id = {str(user.pk): user for user in people.values()}
    return {
        key: by_id[one[SESSION_KEY]].pk
        for key, one in said.items()
        if one.get(SESSION_KEY) in by_id and _is_current(by_id[one[SESSION_KEY]], one)
    }


def _is_current(user: User, said: Mapping[str, str]) -> bool:
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(said.get(HASH_SESSION_KEY, ""), one) for one in hashes)


def _is_signed_in(principal: Principal, behind: Mapping[str, UUID]) -> bool:
    """Whether a person's browser session still holds. Not everybody came by one."""
    return not principal.browser or behind.get(principal.browser) == principal.user_id


def revoked(principals: Collection[Principal]) -> set[Principal]:
    """Those who may no longer read, found in four queries however many there are."""
    keys = {p.key.pk for p in principals if p.key}
    people = {p.user.pk for p in principals if p.user and not p.key}
    valid = set(ApiKey.objects.valid().filter(pk__in=keys).values_list("pk", flat=True))
    members = set(
        Membership.objects.filter(user__in=people, user__is_active=True).values_list(
            "user_id", "workspace_id"
        )
    )

    behind = people_behind({p.browser for p in principals if not p.key})

    def holds(principal: Principal) -> bool:
        if principal.key:
            return principal.key.pk in valid
        is_member = (principal.user_id, principal.workspace_id) in members
        return is_member and _is_signed_in(principal, behind)

    return {principal for principal in principals if not holds(principal)}
