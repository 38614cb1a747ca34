"""Who reads memory, who owns a document, and who writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from core.exceptions import Invalid
from memory.models import MemoryEntry, MemoryVersion


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Whose memory a search or a lookup sees: the workspace's, and that of each id given.

    `whole_workspace` is for people: they see everything but other people's own documents.
    """

    workspace_id: UUID
    agent_id: UUID | None = None
    user_id: UUID | None = None
    session_id: UUID | None = None
    whole_workspace: bool = False

    @property
    def owner_ids(self) -> list[UUID]:
        """Return the owners, from the widest to the narrowest."""
        known = (self.workspace_id, self.agent_id, self.user_id, self.session_id)
        return [owner_id for owner_id in known if owner_id is not None]


def visible_sql(reader: Reader, alias: str) -> tuple[str, list[Any]]:
    """Return an SQL condition on `workspace_id`, `owner_id` and `scope`, and its parameters."""
    if reader.whole_workspace:
        return (
            f"{alias}.workspace_id = %s AND ({alias}.scope <> 'user' OR {alias}.owner_id = %s)",
            [reader.workspace_id, reader.user_id],
        )
    return (
        f"{alias}.workspace_id = %s AND {alias}.owner_id = ANY(%s::uuid[])",
        [reader.workspace_id, reader.owner_ids],
    )


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The owner of a document: the workspace, an agent, a person or a session."""

    workspace_id: UUID
    scope: MemoryEntry.Scope
    owner_id: UUID

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns of a document with this owner."""
        columns: dict[str, Any] = {
            "workspace_id": self.workspace_id,
            "scope": self.scope,
            "owner_id": self.owner_id,
        }
        if self.scope != MemoryEntry.Scope.WORKSPACE:
            columns[f"{self.scope}_id"] = self.owner_id
        return columns


def owner_within(reader: Reader, scope: str) -> Owner:
    """Return the reader's owner of this scope. Raise Invalid if it has none."""
    chosen = MemoryEntry.Scope(scope)
    owner_id = {
        MemoryEntry.Scope.WORKSPACE: reader.workspace_id,
        MemoryEntry.Scope.AGENT: reader.agent_id,
        MemoryEntry.Scope.USER: reader.user_id,
        MemoryEntry.Scope.SESSION: reader.session_id,
    }[chosen]
    if owner_id is None:
        raise Invalid(f"There is no {chosen.value} to own this document.")
    return Owner(workspace_id=reader.workspace_id, scope=chosen, owner_id=owner_id)


@dataclass(frozen=True, kw_only=True)
class Author:
    """The author of a version, and where it was written."""

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
