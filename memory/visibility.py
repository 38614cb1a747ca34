"""The one SQL condition that keeps everybody else's memory out, before anything is ranked."""

from __future__ import annotations

from typing import Any

from memory.reader import Reader


def visible(reader: Reader, alias: str) -> tuple[str, list[Any]]:
    """A condition on `workspace_id`, `owner_id` and `scope` of a table, and its parameters."""
    if reader.whole_workspace:
        return (
            f"{alias}.workspace_id = %s AND ({alias}.scope <> 'user' OR {alias}.owner_id = %s)",
            [reader.workspace_id, reader.user_id],
        )
    return (
        f"{alias}.workspace_id = %s AND {alias}.owner_id = ANY(%s::uuid[])",
        [reader.workspace_id, reader.owner_ids],
    )
