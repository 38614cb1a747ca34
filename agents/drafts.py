"""The draft of an agent: what differs from the published one, changed step by step.

Of two who change the same draft one wins, and the other is given the newer one. Every change is a row
that says who made it and what was there before; whoever watches hears of each once it is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.canvas import Author
from agents.definitions import columns_for, fields_of, merged_fields
from agents.models import Agent, AgentDraft, AgentVersion, DraftChange
from agents.previews import base_of, follow_draft
from config import live
from config.faults import Conflict, DraftConflict


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """A draft as it stands."""

    agent: Agent
    row: AgentDraft
    #: What the draft is laid over.
    base: AgentVersion

    @property
    def fields(self) -> dict[str, Any]:
        """The definition as it would be published."""
        return {**plain(fields_of(self.base)), **self.row.fields}

    @property
    def version(self) -> int:
        """The number of the published version; 0 before the first."""
        return self.base.number

    def as_json(self) -> dict[str, Any]:
        row = self.row
        return {
            "agent": str(self.agent.pk),
            "version": self.version,
            "revision": row.revision,
            "is_empty": row.is_empty and not self.agent.is_draft,
            "fields": self.fields,
            "changed": sorted(row.fields),
            "policy": row.policy,
            "canvas_changed": row.canvas_base is not None,
        }


def group_name(agent_id: UUID) -> str:
    return f"draft.{agent_id}"


def plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as JSON holds them."""
    place = fields["environment"]
    return {**fields, "environment": str(place) if place else None}


def read(agent: Agent) -> Drafted:
    """The draft as it is now. One that nobody has touched differs in nothing."""
    row = AgentDraft.objects.filter(agent=agent).first()
    unsaid = row or AgentDraft(agent=agent, workspace_id=agent.workspace_id)
    return Drafted(agent=agent, row=unsaid, base=base_of(agent))


def hold(agent: Agent, revision: int | None = None) -> Drafted:
    """The draft, locked until the commit; a fault if it is not the revision that was seen."""
    fresh = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    if fresh.archived_at:
        raise Conflict("This agent was archived.")
    agent.is_draft, agent.current_id = fresh.is_draft, fresh.current_id
    AgentDraft.objects.bulk_create(
        [AgentDraft(agent=agent, workspace_id=agent.workspace_id)], ignore_conflicts=True
    )
    row = AgentDraft.objects.select_for_update(no_key=True).get(agent=agent)
    drafted = Drafted(agent=agent, row=row, base=base_of(agent))
    if revision not in (None, row.revision):
        raise DraftConflict(newer=drafted.as_json())
    return drafted


@transaction.atomic
def change(
    agent: Agent, changes: Mapping[str, Any], *, author: Author, revision: int | None = None
) -> Drafted:
    """Change fields of the definition. What is not named stays."""
    drafted = hold(agent, revision)
    before = drafted.fields
    columns = columns_for(agent.workspace_id, merged_fields(before, changes))
    after = plain({**columns, "environment": columns["environment_id"]})
    del after["environment_id"]
    told = {name: (before[name], after[name]) for name in after if before[name] != after[name]}
    return write(drafted, told, author)


@transaction.atomic
def propose_policy(
    agent: Agent,
    words: Mapping[str, Any] | None,
    *,
    base: int,
    author: Author,
    revision: int | None = None,
) -> Drafted:
    """Propose these words, checked by the caller, in place of the policy's revision `base`."""
    drafted = hold(agent, revision)
    after = dict(words) if words is not None else None
    drafted.row.policy_base = base if after is not None else None
    if drafted.row.policy == after:
        drafted.row.save(update_fields=["policy_base"])
        return drafted
    return write(drafted, {DraftChange.POLICY: (drafted.row.policy, after)}, author)


@transaction.atomic
def note_canvas(agent: Agent, *, before: int, after: int, author: Author) -> Drafted:
    """Remember that this draft changed the canvas, which has revisions of its own."""
    drafted = hold(agent)
    if before == after:
        return drafted
    if drafted.row.canvas_base is None:
        drafted.row.canvas_base = before
    return write(drafted, {DraftChange.CANVAS: (before, after)}, author)


def written_by(agent: Agent, author: Author) -> bool:
    """Whether this very call has changed the draft already, before its worker was lost."""
    rows = DraftChange.objects.filter(
        agent=agent, session_id=author.session_id, call_id=author.call_id
    )
    return bool(author.call_id) and rows.exists()


def write(
    drafted: Drafted,
    told: Mapping[str, tuple[Any, Any]],
    author: Author,
    *,
    undoes: DraftChange | None = None,
) -> Drafted:
    """Write what changed, part by part, as the draft's next revision. Nothing makes no revision."""
    if not told:
        return drafted
    row, base = drafted.row, plain(fields_of(drafted.base))
    row.revision += 1
    for part, (_, after) in told.items():
        if part == DraftChange.POLICY:
            row.policy = after
        elif part != DraftChange.CANVAS:
            row.fields.pop(part, None)
            row.fields |= {} if after == base[part] else {part: after}
    row.save()
    DraftChange.objects.bulk_create(
        _change(row, part, before, after, author, undoes) for part, (before, after) in told.items()
    )
    follow_draft(drafted.agent, drafted.fields, row.revision)
    ring(drafted.agent.pk)
    return drafted


def _change(
    row: AgentDraft,
    part: str,
    before: Any,
    after: Any,
    author: Author,
    undoes: DraftChange | None,
) -> DraftChange:
    return DraftChange(
        workspace_id=row.workspace_id,
        agent_id=row.agent_id,
        revision=row.revision,
        part=part,
        before=before,
        after=after,
        created_by_id=author.user_id,
        session_id=author.session_id,
        run_id=author.run_id,
        call_id=author.call_id,
        undoes=undoes,
    )


def ring(agent_id: UUID) -> None:
    """With the commit; viewers read the rows themselves."""
    live.send(group_name(agent_id), {"type": "draft.changed"})
