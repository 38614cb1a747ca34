"""Takes changes of a draft back: one at a time, or all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import transaction

from agents import canvas
from agents.canvas import Author
from agents.definitions import archive_agent
from agents.drafts import Drafted, hold, ring, write
from agents.models import Agent, DraftChange
from config.faults import Conflict, NotFound


def open_changes(agent: Agent) -> Any:
    """The changes of the draft as it is, the newest first, without those that were taken back."""
    rows = DraftChange.objects.filter(agent=agent, settled=None).select_related("created_by")
    return rows.filter(undone_by=None, undoes=None)


@transaction.atomic
def undo(agent: Agent, change_id: UUID, *, author: Author) -> Drafted:
    """Bring back what was there before this change, unless somebody has changed it since."""
    drafted = hold(agent)
    change = DraftChange.objects.filter(agent=agent, pk=change_id).first()
    if change is None:
        raise NotFound
    if change.settled is not None:
        raise Conflict("This change is not part of the draft any more.")
    if change.undoes_id or DraftChange.objects.filter(undoes=change).exists():
        raise Conflict("This was undone already.")
    if not _stands(drafted, change):
        raise Conflict("This was changed again since. Undo the newer change first.")
    back = change.before
    if change.part == DraftChange.CANVAS:
        back = _redraw(agent, int(change.before or 0), author)
    if change.part == DraftChange.POLICY and back is None:
        drafted.row.policy_base = None
    return write(drafted, {change.part: (change.after, back)}, author, undoes=change)


@transaction.atomic
def discard(agent: Agent, *, author: Author, revision: int | None = None) -> None:
    """Throw the draft away. An agent that was never published goes with it."""
    drafted = hold(agent, revision)
    row = drafted.row
    if row.canvas_base is not None:
        _redraw(agent, row.canvas_base, author)
    settle(drafted, 0)
    if agent.is_draft:
        archive_agent(agent)


def settle(drafted: Drafted, version: int) -> None:
    """Begin a new draft: what was in this one is published as that version, or gone."""
    row = drafted.row
    row.revision += 1
    row.fields, row.policy, row.policy_base, row.canvas_base = {}, None, None, None
    row.save()
    DraftChange.objects.filter(agent=row.agent_id, settled=None).update(settled=version)
    ring(row.agent_id)


def _stands(drafted: Drafted, change: DraftChange) -> bool:
    """Whether what the change made is what is there now."""
    if change.part == DraftChange.POLICY:
        return bool(drafted.row.policy == change.after)
    if change.part == DraftChange.CANVAS:
        now = canvas.read(drafted.agent).graph.model_dump(mode="json")
        return now == _shape(drafted.agent, int(change.after or 0))
    return bool(drafted.fields[change.part] == change.after)


def _shape(agent: Agent, number: int) -> dict[str, Any]:
    """What the canvas was at this revision; at first it was empty."""
    if not number:
        return {"nodes": [], "edges": []}
    old = canvas.revision_of(agent, number)
    return {"nodes": old.nodes, "edges": old.edges}


def _redraw(agent: Agent, number: int, author: Author) -> int:
    """Save an older state of the canvas as its newest revision."""
    now = canvas.read(agent)
    if number == now.revision:
        return number
    shape = _shape(agent, number)
    # A call writes a canvas once; what is taken back is written by whoever takes it back.
    by = replace(author, call_id="")
    drawn = canvas.save(agent, **shape, revision=now.revision, confirm_empty=True, author=by)
    return drawn.revision
