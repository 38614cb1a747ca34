"""Who acts when nobody came through a door: code of this process, and commands on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tenants.access import ROLE_VERBS, Principal
from tenants.models import Membership


@dataclass(frozen=True, kw_only=True)
class Insider(Principal):
    """May do everything in one workspace, in the name of its first owner if it has one."""

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "the command line"


def insider(workspace_id: UUID) -> Principal:
    owners = Membership.objects.filter(workspace_id=workspace_id, role=Membership.Role.OWNER)
    first = owners.select_related("user").order_by("created_at", "pk").first()
    return Insider(
        workspace_id=workspace_id,
        user=first.user if first else None,
        verbs=ROLE_VERBS[Membership.Role.OWNER],
        role=Membership.Role.OWNER,
    )
