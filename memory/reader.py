"""Whose eyes look at memory. Every search and every look by path starts from a reader."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A reader sees the memory of the workspace and of whichever of these are named.

    `whole_workspace` is for people who look after it: everything but what other people keep for
    themselves.
    """

    workspace_id: UUID
    agent_id: UUID | None = None
    user_id: UUID | None = None
    session_id: UUID | None = None
    whole_workspace: bool = False

    @property
    def owner_ids(self) -> list[UUID]:
        """From the widest to the narrowest."""
        known = (self.workspace_id, self.agent_id, self.user_id, self.session_id)
        return [one for one in known if one is not None]
