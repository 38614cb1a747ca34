"""Who acts when nobody came through a door: code of this process, and commands on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tenants.access import ROLE_VERBS, Principal
from tenants.models import Membership
from tenants.workspaces import first_owner


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
    return Insider(
        workspace_id=workspace_id,
        user=first_owner(workspace_id),
        verbs=ROLE_VERBS[Membership.Role.OWNER],
        role=Membership.Role.OWNER,
    )
