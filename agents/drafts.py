"""Changes the draft of an agent: the fields, policy and canvas that are not published yet.

When two writers change the same draft, one wins and the other gets the newer draft in a conflict.
Every change is a row with its author and the value before, and viewers are notified on commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.canvas import revisions
from agents.canvas.revisions import Author
from agents.definitions import archive_agent, columns_for, current_version, fields_of, merged_fields
from agents.exceptions import DraftConflict
from agents.models import Agent, AgentDraft, AgentVersion, DraftChange
from core import channel_layer
from core.exceptions import Conflict
from tenants.models import User


@transaction.atomic
def create_draft_agent(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> Agent:
    """Create an agent that is only a draft: it has no version yet and is given no work."""
    columns = columns_for(workspace_id, fields)
    agent = Agent.objects.create(workspace_id=workspace_id, created_by=created_by, is_draft=True)
    agent.current = _write(agent, columns, revision=0)
    agent.save(update_fields=["current"])
    return agent


def base_version(agent: Agent) -> AgentVersion:
    """Return the version that a draft changes: the published one, or what a new agent began as."""
    if agent.is_draft:
        return agent.versions.get(preview=0)
    return current_version(agent)


def preview_version(agent: Agent, fields: Mapping[str, Any], revision: int) -> AgentVersion:
    """Return the draft at this revision as a version, created when first asked for."""
    version = agent.versions.filter(preview=revision).first()
    return version or _write(agent, columns_for(agent.workspace_id, fields), revision=revision)


def follow_draft(agent: Agent, fields: Mapping[str, Any], revision: int) -> None:
    """Let an unpublished agent have the name and definition of its draft."""
    if agent.is_draft:
        agent.current = preview_version(agent, fields, revision)
        agent.save(update_fields=["current"])


def _write(agent: Agent, columns: Mapping[str, Any], *, revision: int) -> AgentVersion:
    version, _ = AgentVersion.objects.get_or_create(
        agent=agent,
        preview=revision,
        defaults={"workspace_id": agent.workspace_id, "number": 0, **columns},
    )
    return version


@dataclass(frozen=True, kw_only=True)
class DraftState:
    """A draft as it is now."""

    agent: Agent
    row: AgentDraft
    #: The version that the draft changes.
    base: AgentVersion

    @property
    def fields(self) -> dict[str, Any]:
        """Return the definition as it would be published."""
        return {**json_fields(fields_of(self.base)), **self.row.fields}

    @property
    def version(self) -> int:
        """Return the number of the published version; 0 before the first."""
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


def draft_group(agent_id: UUID) -> str:
    return f"draft.{agent_id}"


def json_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields as they are stored in JSON."""
    environment = fields["environment"]
    return {**fields, "environment": str(environment) if environment else None}


def read(agent: Agent) -> DraftState:
    """Return the draft as it is now, empty if it was never changed."""
    row = AgentDraft.objects.filter(agent=agent).first()
    row = row or AgentDraft(agent=agent, workspace_id=agent.workspace_id)
    return DraftState(agent=agent, row=row, base=base_version(agent))


def lock(agent: Agent, revision: int | None = None) -> DraftState:
    """Return the draft, locked until the transaction ends.

    Raise DraftConflict if `revision` is given and is not the newest.
    """
    fresh = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    if fresh.archived_at:
        raise Conflict("This agent was archived.")
    agent.is_draft, agent.current_id = fresh.is_draft, fresh.current_id
    AgentDraft.objects.bulk_create(
        [AgentDraft(agent=agent, workspace_id=agent.workspace_id)], ignore_conflicts=True
    )
    row = AgentDraft.objects.select_for_update(no_key=True).get(agent=agent)
    drafted = DraftState(agent=agent, row=row, base=base_version(agent))
    if revision not in (None, row.revision):
        raise DraftConflict(newer=drafted.as_json())
    return drafted


@transaction.atomic
def change(
    agent: Agent, changes: Mapping[str, Any], *, author: Author, revision: int | None = None
) -> DraftState:
    """Change the named fields of the definition."""
    drafted = lock(agent, revision)
    before = drafted.fields
    columns = columns_for(agent.workspace_id, merged_fields(before, changes))
    after = json_fields({**columns, "environment": columns["environment_id"]})
    del after["environment_id"]
    changed = {name: (before[name], after[name]) for name in after if before[name] != after[name]}
    return write(drafted, changed, author)


@transaction.atomic
def propose_policy(
    agent: Agent,
    policy: Mapping[str, Any] | None,
    *,
    base: int,
    author: Author,
    revision: int | None = None,
) -> DraftState:
    """Propose a policy, validated by the caller, in place of its revision `base`."""
    drafted = lock(agent, revision)
    after = dict(policy) if policy is not None else None
    drafted.row.policy_base = base if after is not None else None
    if drafted.row.policy == after:
        drafted.row.save(update_fields=["policy_base"])
        return drafted
    return write(drafted, {DraftChange.POLICY: (drafted.row.policy, after)}, author)


@transaction.atomic
def record_canvas_change(agent: Agent, *, before: int, after: int, author: Author) -> DraftState:
    """Record that this draft changed the canvas, which has its own revisions."""
    drafted = lock(agent)
    if before == after:
        return drafted
    if drafted.row.canvas_base is None:
        drafted.row.canvas_base = before
    return write(drafted, {DraftChange.CANVAS: (before, after)}, author)


def written_by(agent: Agent, author: Author) -> bool:
    """Return whether this tool call changed the draft already, before its worker was lost."""
    rows = DraftChange.objects.filter(
        agent=agent, session_id=author.session_id, call_id=author.call_id
    )
    return bool(author.call_id) and rows.exists()


def write(
    drafted: DraftState,
    changed: Mapping[str, tuple[Any, Any]],
    author: Author,
    *,
    undoes: DraftChange | None = None,
) -> DraftState:
    """Save the changed parts as the draft's next revision. No change makes no revision."""
    if not changed:
        return drafted
    row, base = drafted.row, json_fields(fields_of(drafted.base))
    row.revision += 1
    for part, (_, after) in changed.items():
        if part == DraftChange.POLICY:
            row.policy = after
        elif part != DraftChange.CANVAS:
            row.fields.pop(part, None)
            row.fields |= {} if after == base[part] else {part: after}
    row.save()
    DraftChange.objects.bulk_create(
        DraftChange(
            workspace_id=row.workspace_id,
            agent_id=row.agent_id,
            revision=row.revision,
            part=part,
            before=before,
            after=after,
            undoes=undoes,
            **author.columns,
        )
        for part, (before, after) in changed.items()
    )
    follow_draft(drafted.agent, drafted.fields, row.revision)
    notify_viewers(drafted.agent.pk)
    return drafted


def notify_viewers(agent_id: UUID) -> None:
    """Tell viewers on commit that there is a new revision, which they then read."""
    channel_layer.send(draft_group(agent_id), {"type": "draft.changed"})


def open_changes(agent: Agent) -> Any:
    """Return the unpublished changes, newest first, without those that were undone."""
    rows = DraftChange.objects.filter(agent=agent, settled=None).select_related("created_by")
    return rows.filter(undone_by=None, undoes=None)


@transaction.atomic
def undo(agent: Agent, change_id: UUID, *, author: Author) -> DraftState:
    """Restore the value before a change. Raise Conflict if the part was changed again since."""
    drafted = lock(agent)
    change = DraftChange.objects.find(agent=agent, pk=change_id)
    if change.settled is not None:
        raise Conflict("This change is no longer part of the draft.")
    if change.undoes_id or DraftChange.objects.filter(undoes=change).exists():
        raise Conflict("This change was already undone.")
    if not _is_current(drafted, change):
        raise Conflict("This was changed again. Undo the newer change first.")
    back = change.before
    if change.part == DraftChange.CANVAS:
        back = _redraw(agent, int(change.before or 0), author)
    if change.part == DraftChange.POLICY and back is None:
        drafted.row.policy_base = None
    return write(drafted, {change.part: (change.after, back)}, author, undoes=change)


@transaction.atomic
def discard(agent: Agent, *, author: Author, revision: int | None = None) -> None:
    """Discard the draft. An agent that was never published is archived with it."""
    drafted = lock(agent, revision)
    row = drafted.row
    if row.canvas_base is not None:
        _redraw(agent, row.canvas_base, author)
    close(drafted, 0)
    if agent.is_draft:
        archive_agent(agent)


def close(drafted: DraftState, version: int) -> None:
    """Empty the draft after its changes were published as that version, or discarded (0)."""
    row = drafted.row
    row.revision += 1
    row.fields, row.policy, row.policy_base, row.canvas_base = {}, None, None, None
    row.save()
    DraftChange.objects.filter(agent=row.agent_id, settled=None).update(settled=version)
    notify_viewers(row.agent_id)


def _is_current(drafted: DraftState, change: DraftChange) -> bool:
    """Return whether the part still has the value that the change gave it."""
    if change.part == DraftChange.POLICY:
        return bool(drafted.row.policy == change.after)
    if change.part == DraftChange.CANVAS:
        now = revisions.read(drafted.agent).graph.model_dump(mode="json")
        return now == _shape(drafted.agent, int(change.after or 0))
    return bool(drafted.fields[change.part] == change.after)


def _shape(agent: Agent, number: int) -> dict[str, Any]:
    """Return the graph of a canvas revision; before the first it was empty."""
    if not number:
        return {"nodes": [], "edges": []}
    old = revisions.get_revision(agent, number)
    return {"nodes": old.nodes, "edges": old.edges}


def _redraw(agent: Agent, number: int, author: Author) -> int:
    """Save an older state of the canvas as its newest revision."""
    now = revisions.read(agent)
    if number == now.revision:
        return number
    shape = _shape(agent, number)
    # A tool call writes a canvas once, and undoing is another write.
    by = replace(author, call_id="")
    drawn = revisions.save(agent, **shape, revision=now.revision, confirm_empty=True, author=by)
    return drawn.revision
