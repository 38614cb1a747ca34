"""Keeps what consolidations propose: begins and stores a review, applies, discards or undoes it.

Each is one commit. A document that changed since it was read is left as it is, and so is every
document whose change relies on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from agents.models import Agent
from core.db import lock_row
from core.exceptions import Conflict, Fault, NotFound
from memory import documents
from memory.consolidation import Draft
from memory.diffs import merge
from memory.documents import ABSENT, Marks
from memory.embeddings import lock_choice
from memory.exceptions import ConsolidationOver
from memory.models import (
    Consolidation,
    ConsolidationChange,
    ConsolidationChoice,
    MemoryEntry,
    MemoryVersion,
)
from memory.ownership import Author, Owner, person

Status, Trust = Consolidation.Status, MemoryEntry.Trust
Action, Outcome = ConsolidationChange.Action, ConsolidationChange.Outcome

#: The most that one consolidation reads, newest documents first.
MOST_DOCUMENTS, MOST_BYTES = 2_000, 20_000_000
#: Earlier consolidations whose outcome counts for the next one.
REMEMBERED = 50

CHANGED = "It has changed since it was reviewed."
RELIED_CHANGED = "A document that it relies on has changed since it was reviewed."
LESS_TRUSTED = "A document that it relies on is not trusted."
EXISTS = "Another document has this path now."
CHANGED_AFTER = "It was changed afterwards in the same place. Compare its versions."


def choice_of(agent: Agent) -> ConsolidationChoice:
    """Return how the agent's memory is consolidated, not stored if it was never changed."""
    rows = ConsolidationChoice.objects.for_workspace(agent.workspace_id)
    return rows.filter(agent=agent).first() or ConsolidationChoice(
        workspace_id=agent.workspace_id, agent=agent
    )


def set_choice(
    agent: Agent, *, applies_itself: bool | None = None, budget: Decimal | None = None
) -> ConsolidationChoice:
    """Change what is given."""
    given = {"applies_itself": applies_itself, "budget": budget}
    changes = {name: value for name, value in given.items() if value is not None}
    choice, _ = ConsolidationChoice.objects.update_or_create(
        agent=agent, defaults={"workspace_id": agent.workspace_id, **changes}
    )
    return choice


def find_consolidation(workspace_id: UUID, consolidation_id: UUID) -> Consolidation:
    rows = Consolidation.objects.for_workspace(workspace_id)
    found = rows.select_related("agent__current", "decided_by", "undone_by")
    row = found.filter(pk=consolidation_id).first()
    if row is None:
        raise NotFound
    return row


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A change with the texts before and after, as far as they were not redacted."""

    change: ConsolidationChange
    before: str
    after: str


def shown_changes(row: Consolidation) -> list[Shown]:
    """Return the changes with their texts, in two queries."""
    changes = list(row.changes.select_related("entry__current", "consolidation"))
    versions = {
        (entry_id, number): content
        for entry_id, number, content in MemoryVersion.objects.for_workspace(row.workspace_id)
        .filter(entry__in=[one.entry_id for one in changes if one.entry_id])
        .filter(number__in={n for one in changes for n in (one.version_before, one.version_after)})
        .values_list("entry_id", "number", "content")
    }
    return [_shown(change, versions) for change in changes]


def _shown(change: ConsolidationChange, versions: Mapping[tuple[UUID, int], str]) -> Shown:
    if change.outcome in (Outcome.APPLIED, Outcome.UNDONE) and change.entry_id:
        before = versions.get((change.entry_id, change.version_before or 0), "")
        after = versions.get((change.entry_id, change.version_after or 0), "")
    elif change.consolidation.status == Status.WAITING and change.outcome == Outcome.PENDING:
        before = documents.content_of(change.entry) if change.entry else ""
        after = before if change.action == Action.HIDE else change.content
    else:
        before = after = ""
    return Shown(change=change, before=before, after=after)


# ── Reviewing ────────────────────────────────────────────────────────────────


def begin(agent: Agent, *, session_id: UUID, run_id: UUID) -> Consolidation:
    """Return the agent's open review, which a lost run may have left, or a new one."""
    row, is_new = Consolidation.objects.get_or_create(
        agent=agent,
        status=Status.REVIEWING,
        defaults={
            "workspace_id": agent.workspace_id,
            "session_id": session_id,
            "run_id": run_id,
        },
    )
    if not is_new:
        row.session_id, row.run_id = session_id, run_id
        row.save(update_fields=["session_id", "run_id"])
    return row


def documents_of(agent: Agent, *, leave: Collection[str]) -> list[MemoryEntry]:
    """Return the documents to review: the agent's own, but not the hidden ones and these paths."""
    rows = MemoryEntry.objects.for_workspace(agent.workspace_id).kept()
    rows = rows.filter(owner_id=agent.pk, scope=MemoryEntry.Scope.AGENT, never_recall=False)
    rows = rows.filter(current__isnull=False).exclude(path__in=leave).order_by("-updated_at", "pk")
    ids, size = [], 0
    for pk, count in rows.values_list("pk", "current__bytes")[:MOST_DOCUMENTS]:
        size += count
        if size > MOST_BYTES:
            break
        ids.append(pk)
    return list(rows.filter(pk__in=ids).order_by("path").select_related("current"))


def paths_of(workspace_id: UUID, agent_id: UUID, paths: Collection[str]) -> dict[str, UUID]:
    """Return the ids of the agent's documents at these paths."""
    rows = MemoryEntry.objects.for_workspace(workspace_id).kept().filter(owner_id=agent_id)
    return dict(rows.filter(path__in=paths).values_list("path", "pk"))


def refused_groups(agent: Agent) -> set[str]:
    """Return the groups whose changes a person discarded or undid; they are not proposed again."""
    rows = _earlier(agent).filter(
        status__in=[Status.DISCARDED, Status.UNDONE], decided_at__isnull=False
    )
    ids = list(rows.values_list("pk", flat=True)[:REMEMBERED])
    found = ConsolidationChange.objects.filter(consolidation__in=ids).values_list("reasons")
    return {one["group"] for (reasons,) in found for one in reasons if one.get("group")}


def settled_groups(agent: Agent) -> list[str]:
    """Return the groups in which a model found nothing to change."""
    row = _earlier(agent).exclude(status=Status.REVIEWING).values_list("settled", flat=True).first()
    return row or []


def _earlier(agent: Agent) -> QuerySet[Consolidation]:
    return Consolidation.objects.for_workspace(agent.workspace_id).filter(agent=agent)


def keep_answer(row: Consolidation, key: str, answer: str, cost: Decimal) -> None:
    """Keep a model's answer until the review is over, so that a lost run does not ask again."""
    row.answers[key] = answer
    Consolidation.objects.filter(pk=row.pk).update(answers=row.answers, cost=F("cost") + cost)


@dataclass(frozen=True, kw_only=True)
class Review:
    """What a review found."""

    drafts: Sequence[Draft]
    settled: Sequence[str]
    documents: int
    notes: int
    remark: str = ""


@transaction.atomic
def finish(row: Consolidation, review: Review) -> Consolidation:
    """Store the proposal. One that still waits is replaced by it."""
    waiting = _earlier(row.agent).filter(status=Status.WAITING)
    for old in waiting.select_for_update(no_key=True):
        _close(old, status=Status.DISCARDED, remark="A newer review has replaced it.")
    ConsolidationChange.objects.bulk_create(
        ConsolidationChange(
            workspace_id=row.workspace_id,
            consolidation=row,
            position=position,
            action=draft.action,
            entry_id=draft.entry_id,
            path=draft.path,
            content=draft.content,
            reasons=draft.reasons_json,
            relies_on=draft.relies_on,
        )
        for position, draft in enumerate(review.drafts)
    )
    row.status = Status.WAITING if review.drafts else Status.NOTHING
    row.answers, row.settled, row.remark = {}, list(review.settled), review.remark
    row.documents, row.notes = review.documents, review.notes
    row.save(update_fields=["status", "answers", "settled", "remark", "documents", "notes"])
    return row


def _close(row: Consolidation, **changes: object) -> None:
    """End a consolidation. The texts that it proposed are no longer kept."""
    row.changes.update(content="")
    for name, value in changes.items():
        setattr(row, name, value)
    row.save(update_fields=list(changes))


# ── Deciding ─────────────────────────────────────────────────────────────────


@transaction.atomic
def apply(row: Consolidation, *, by: UUID | None) -> Consolidation:
    """Write the changes whose documents are still as they were reviewed. `by` None is the agent."""
    locked = _lock(row, Status.WAITING)
    changes = list(locked.changes.all())
    entries = _lock_documents(locked, changes)
    left_out = _left_out(locked, changes, entries)
    for change in changes:
        if change.pk in left_out:
            change.outcome, change.remark = Outcome.SKIPPED, left_out[change.pk]
        else:
            _write(locked, change, entries, by)
            change.outcome = Outcome.APPLIED
        change.content = ""
        change.save()
    _close(locked, status=Status.APPLIED, decided_by_id=by, decided_at=Now())
    return find_consolidation(row.workspace_id, row.pk)


@transaction.atomic
def discard(row: Consolidation, *, by: UUID | None) -> Consolidation:
    """Change nothing. The same changes are not proposed again."""
    locked = _lock(row, Status.WAITING)
    _close(locked, status=Status.DISCARDED, decided_by_id=by, decided_at=Now())
    return find_consolidation(row.workspace_id, row.pk)


@transaction.atomic
def undo(row: Consolidation, *, by: UUID | None) -> Consolidation:
    """Bring every document back to its text before; later changes of other lines stay."""
    locked = _lock(row, Status.APPLIED)
    changes = list(locked.changes.filter(outcome=Outcome.APPLIED))
    entries = _lock_documents(locked, changes)
    for change in changes:
        try:
            with transaction.atomic():
                _take_back(change, entries, person(by))
            change.outcome = Outcome.UNDONE
        except Fault as fault:
            change.remark = fault.detail[:300]
        change.save()
    _close(locked, status=Status.UNDONE, undone_by_id=by, undone_at=Now())
    return find_consolidation(row.workspace_id, row.pk)


def _lock(row: Consolidation, expected: Consolidation.Status) -> Consolidation:
    locked: Consolidation = lock_row(row)
    if locked.status != expected:
        raise ConsolidationOver(f"This consolidation is {locked.get_status_display().lower()}.")
    return locked


def _lock_documents(
    row: Consolidation, changes: Iterable[ConsolidationChange]
) -> dict[str, MemoryEntry]:
    """Return the documents that the changes concern, by id, locked in the order of their paths."""
    lock_choice(row.workspace_id)
    ids = {one for change in changes for one, hash in change.relies_on.items() if hash}
    ids |= {str(change.entry_id) for change in changes if change.entry_id}
    rows = MemoryEntry.objects.for_workspace(row.workspace_id).filter(
        owner_id=row.agent_id, pk__in=ids
    )
    locked = rows.select_for_update(no_key=True, of=("self",)).select_related("current")
    return {str(entry.pk): entry for entry in locked.order_by("path", "pk")}


def _left_out(
    row: Consolidation,
    changes: Sequence[ConsolidationChange],
    entries: Mapping[str, MemoryEntry],
) -> dict[UUID, str]:
    """Return why some changes cannot be applied, by their ids."""
    taken = MemoryEntry.objects.for_workspace(row.workspace_id).kept().filter(owner_id=row.agent_id)
    taken_paths = set(
        taken.filter(path__in=[one.path for one in changes]).values_list("path", flat=True)
    )
    found: dict[UUID, str] = {}
    for change in changes:
        if why := _problem(change, entries, taken_paths):
            found[change.pk] = why
    # What relies on a change that is left out is left out too.
    changed = {
        str(change.entry_id) if change.entry_id else change.path: change for change in changes
    }
    while True:
        more = {
            change.pk: RELIED_CHANGED
            for change in changes
            if change.pk not in found
            and any((on := changed.get(one)) and on.pk in found for one in change.relies_on)
        }
        if not more:
            return found
        found |= more


def _problem(
    change: ConsolidationChange, entries: Mapping[str, MemoryEntry], taken: Collection[str]
) -> str:
    """Return why a change cannot be applied by itself."""
    if change.outcome != Outcome.PENDING:
        return change.remark
    if change.action == Action.CREATE and change.path in taken:
        return EXISTS
    own = entries.get(str(change.entry_id))
    if change.entry_id and not _is_as_read(own, change.relies_on[str(change.entry_id)]):
        return CHANGED
    for one, hash in change.relies_on.items():
        if hash and not _is_as_read(entries.get(one), hash):
            return RELIED_CHANGED
        # A trusted document neither takes text from an untrusted one nor gives way to it.
        if own and hash and own.trust == Trust.TRUSTED and entries[one].trust != Trust.TRUSTED:
            return LESS_TRUSTED
    return ""


def _is_as_read(entry: MemoryEntry | None, hash: str) -> bool:
    return entry is not None and entry.deleted_at is None and entry.hash == hash


def _write(
    row: Consolidation,
    change: ConsolidationChange,
    entries: Mapping[str, MemoryEntry],
    by: UUID | None,
) -> None:
    author = Author(
        kind=MemoryVersion.Author.TOOL,
        user_id=by,
        tool="consolidation",
        session_id=row.session_id,
        run_id=row.run_id,
        call_id=f"consolidation:{row.pk}",
    )
    if change.action == Action.CREATE:
        sources = [entries[one] for one, hash in change.relies_on.items() if hash]
        is_trusted = all(entry.trust == Trust.TRUSTED for entry in sources)
        change.entry = documents.write_entry(
            owner=_owner(row),
            path=change.path,
            content=change.content,
            author=author,
            expected_hash=ABSENT,
            marks=Marks(trust=Trust.TRUSTED if is_trusted else Trust.UNTRUSTED),
        )
        change.version_after = 1
        return
    entry = entries[str(change.entry_id)]
    change.version_before = entry.current.number if entry.current else None
    if change.action == Action.DELETE:
        documents.delete_entry(entry)
        return
    marks = Marks(never_recall=True) if change.action == Action.HIDE else None
    content = change.content if change.action == Action.WRITE else None
    changed = documents.change_entry(entry, author=author, content=content, marks=marks)
    change.version_after = changed.current.number if changed.current else None


def _owner(row: Consolidation) -> Owner:
    return Owner(
        workspace_id=row.workspace_id, scope=MemoryEntry.Scope.AGENT, owner_id=row.agent_id
    )


def _take_back(
    change: ConsolidationChange, entries: Mapping[str, MemoryEntry], author: Author
) -> None:
    """Undo one change, or raise why that cannot be."""
    entry = entries[str(change.entry_id)]
    number = entry.current.number if entry.current else None
    if change.action == Action.HIDE:
        documents.change_entry(entry, author=author, marks=Marks(never_recall=False))
    elif change.action == Action.CREATE:
        if entry.deleted_at is None and number != change.version_after:
            raise Conflict(CHANGED_AFTER)
        if entry.deleted_at is None:
            documents.delete_entry(entry)
    elif change.action == Action.DELETE or number == change.version_after:
        documents.restore_version(entry, change.version_before or 0, author=author)
    else:
        _merge_back(change, entry, author)


def _merge_back(change: ConsolidationChange, entry: MemoryEntry, author: Author) -> None:
    """Take a change back below later changes of the document."""
    before = documents.version_of(entry, change.version_before or 0)
    after = documents.version_of(entry, change.version_after or 0)
    merged = merge(after.content, before.content, documents.content_of(entry))
    if entry.deleted_at or before.redacted_at or after.redacted_at or merged.clashes:
        raise Conflict(CHANGED_AFTER)
    documents.change_entry(entry, author=author, content=merged.text)
