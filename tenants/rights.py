"""Whether an identity that was let in once still holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from config.faults import Unauthenticated
from tenants.access import ROLE_VERBS, Principal, principal_of_key
from tenants.models import ApiKey, Membership


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
    if membership is None:
        raise Unauthenticated
    return replace(principal, verbs=ROLE_VERBS[membership.role], role=membership.role)


def revoked(principals: Collection[Principal]) -> set[Principal]:
    """Those who may no longer read, found in two queries however many there are."""
    keys = {p.key.pk for p in principals if p.key}
    people = {p.user.pk for p in principals if p.user and not p.key}
    valid = set(ApiKey.objects.valid().filter(pk__in=keys).values_list("pk", flat=True))
    members = set(
        Membership.objects.filter(user__in=people, user__is_active=True).values_list(
            "user_id", "workspace_id"
        )
    )

    def holds(principal: Principal) -> bool:
        if principal.key:
            return principal.key.pk in valid
        return principal.user is not None and (
            (principal.user.pk, principal.workspace_id) in members
        )

    return {principal for principal in principals if not holds(principal)}
