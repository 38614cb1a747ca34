"""What the frame around every page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from django.http import HttpRequest

from tenants.access import NOBODY, Principal
from tenants.accounts import workspaces_of
from tenants.authentication import principal_of
from tenants.models import User, Workspace
from tenants.pages.rail import DEEDS, RAIL, SETTINGS, Place, places

#: The bar of a phone holds five: four places and "More".
BAR = 4


@dataclass(kw_only=True)
class Frame:
    """Read from the database only as far as a template looks."""

    principal: Principal = NOBODY
    path: str = "/"

    @property
    def person(self) -> User | None:
        return self.principal.user

    @cached_property
    def workspaces(self) -> list[Workspace]:
        return workspaces_of(self.person) if self.person else []

    @property
    def workspace(self) -> Workspace | None:
        acting = self.principal.workspace_id
        return next((one for one in self.workspaces if one.pk == acting), None)

    @cached_property
    def rail(self) -> list[Place]:
        if self.principal.workspace_id is None:
            return []
        return places(
            RAIL,
            path=self.path,
            workspace_id=self.principal.workspace_id,
            person_id=self.person.pk if self.person else None,
        )

    @cached_property
    def settings(self) -> list[Place]:
        acting = self.principal.workspace_id
        may = self.principal.may
        own = [i for i in SETTINGS if i.url_name == "account" or (acting and may(i.needs))]
        return places(own, path=self.path, workspace_id=acting)

    @property
    def bar(self) -> list[Place]:
        return self.rail[:BAR]

    @property
    def more(self) -> list[Place]:
        return self.rail[BAR:]

    @property
    def pages(self) -> list[Place]:
        return [*self.rail, *self.settings, *self.deeds]

    @property
    def deeds(self) -> list[Place]:
        acting = self.principal.workspace_id
        own = [item for item in DEEDS if acting and self.principal.may(item.needs)]
        return places(own, path=self.path, workspace_id=acting)


def frame(request: HttpRequest) -> Mapping[str, object]:
    """The context processor behind `{{ frame }}`."""
    return {"frame": Frame(principal=principal_of(request), path=request.path)}
