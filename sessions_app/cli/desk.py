"""What every command is given: who acts, where, what was asked, and where to write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

import orjson
from django.core.management.base import CommandError

from config.faults import NotFound
from sessions_app.doors import find_session
from sessions_app.insider import insider
from sessions_app.models import Session
from tenants.access import Principal
from tenants.models import Workspace
from tenants.workspaces import find_workspace


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One command at work."""

    principal: Principal
    workspace_id: UUID
    asked: dict[str, Any]
    write: Callable[[str], object]

    @property
    def session(self) -> Session:
        """The session that was named, if it is of this workspace."""
        try:
            return find_session(self.principal, self.asked["session"])
        except NotFound:
            raise CommandError(f"There is no session {self.asked['session']} here.") from None

    def say(self, text: str, /, **facts: Any) -> None:
        """Write the text for a person, or the facts for a program."""
        self.write(orjson.dumps(facts, default=str).decode() if self.asked["json"] else text)


Act: TypeAlias = Callable[[Desk], None]


def open_desk(asked: dict[str, Any], write: Callable[[str], object]) -> Desk:
    workspace = _workspace(asked["workspace"])
    return Desk(
        principal=insider(workspace.pk), workspace_id=workspace.pk, asked=asked, write=write
    )


def _workspace(name: str | None) -> Workspace:
    if name:
        named = find_workspace(name)
        if named is None:
            raise CommandError(f"There is no workspace {name!r}.")
        return named
    first = Workspace.objects.order_by("created_at", "pk").first()
    if first is None:
        raise CommandError("There is no workspace yet. Start Switchyard once, or issue a key.")
    return first
