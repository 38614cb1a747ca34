"""Tells the rest of the world that an approval was asked for or answered, with the commit."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from config import live
from sessions_app.models import Approval


def group_name(workspace_id: UUID) -> str:
    """Whom the rings of a workspace reach."""
    return f"approvals.{workspace_id}"


def announce(approvals: Iterable[Approval]) -> None:
    """Whoever watches looks again; what became of it stands in the row."""
    messages = [
        (group_name(one.workspace_id), {"type": "approval.changed", "id": str(one.pk)})
        for one in approvals
    ]
    if messages:
        live.send_many(messages)
