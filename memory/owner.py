"""Whose a document is, and who writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from config.faults import Invalid
from memory.models import MemoryEntry, MemoryVersion
from memory.reader import Reader

Scope = Literal["workspace", "agent", "user", "session"]


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One of: the workspace, an agent, a person, a session."""

    workspace_id: UUID
    scope: MemoryEntry.Scope
    owner_id: UUID

    @property
    def columns(self) -> dict[str, Any]:
        """As a row has them."""
        columns: dict[str, Any] = {
            "workspace_id": self.workspace_id,
            "scope": self.scope,
            "owner_id": self.owner_id,
        }
        if self.scope != MemoryEntry.Scope.WORKSPACE:
            columns[f"{self.scope}_id"] = self.owner_id
        return columns


def owner_within(reader: Reader, scope: str) -> Owner:
    """The owner of this scope among those that the reader is."""
    chosen = MemoryEntry.Scope(scope)
    owner_id = {
        MemoryEntry.Scope.WORKSPACE: reader.workspace_id,
        MemoryEntry.Scope.AGENT: reader.agent_id,
        MemoryEntry.Scope.USER: reader.user_id,
        MemoryEntry.Scope.SESSION: reader.session_id,
    }[chosen]
    if owner_id is None:
        raise Invalid(f"There is no {chosen.value} here to keep this for.")
    return Owner(workspace_id=reader.workspace_id, scope=chosen, owner_id=owner_id)


def owner_of(entry: MemoryEntry) -> Owner:
    return Owner(
        workspace_id=entry.workspace_id,
        scope=MemoryEntry.Scope(entry.scope),
        owner_id=entry.owner_id,
    )


@dataclass(frozen=True, kw_only=True)
class Author:
    """Who writes a version, and from where."""

    kind: MemoryVersion.Author
    user_id: UUID | None = None
    tool: str = ""
    session_id: UUID | None = None
    run_id: UUID | None = None
    call_id: str = ""
    event_id: UUID | None = None

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "author": self.kind,
            "created_by_id": self.user_id,
            "tool": self.tool,
            "session_id": self.session_id,
            "run_id": self.run_id,
            "call_id": self.call_id[:200],
            "event_id": self.event_id,
        }


def person(user_id: UUID | None) -> Author:
    return Author(kind=MemoryVersion.Author.PERSON, user_id=user_id)
