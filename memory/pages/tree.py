"""The tree of documents: by whose they are, then by the folders of their paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from agents.models import Agent
from memory.models import MemoryEntry
from memory.reader import Reader

#: So many documents stand in the tree at once; the open owner's come first.
MOST_SHOWN = 400
MOST_OWNERS = 200
ICONS = {"workspace": "building-2", "agent": "bot", "user": "user", "session": "message-square"}
ORDER = ("workspace", "user", "agent", "session")


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One document."""

    id: UUID
    name: str
    pinned: bool
    never_recall: bool
    untrusted: bool
    is_current: bool


@dataclass(kw_only=True)
class Folder:
    name: str
    folders: dict[str, Folder] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)
    is_open: bool = False


@dataclass(frozen=True, kw_only=True)
class Branch:
    """The memory of one owner."""

    owner_id: UUID
    scope: str
    name: str
    count: int
    root: Folder
    is_open: bool

    @property
    def icon(self) -> str:
        return ICONS[self.scope]

    @property
    def is_shown(self) -> bool:
        """Whether its documents are here, or a link away."""
        return bool(self.root.folders or self.root.leaves)

    @property
    def left_out(self) -> int:
        return self.count - MOST_SHOWN if self.is_shown and self.count > MOST_SHOWN else 0


def grow(reader: Reader, *, current: MemoryEntry | None, open_owner: UUID | None) -> list[Branch]:
    """The branches that a reader may see. Four queries, however many documents there are."""
    rows = MemoryEntry.objects.seen_by(reader).kept().filter(current__isnull=False)
    opened = current.owner_id if current else open_owner
    found = _owners(rows, opened)
    shown = _within(found, opened)
    folders: dict[UUID, Folder] = {}
    leaves = (
        rows.filter(owner_id__in=shown)
        .order_by("path")
        .only("id", "path", "owner_id", "pinned", "never_recall", "trust")[: MOST_SHOWN * 2]
    )
    for entry in leaves:
        _hang(folders.setdefault(entry.owner_id, Folder(name="")), entry, current)
    names = names_of(found)
    branches = [
        Branch(
            owner_id=owner_id,
            scope=scope,
            name=names.get(owner_id, "Gone"),
            count=count,
            root=folders.get(owner_id, Folder(name="")),
            is_open=owner_id == opened or (opened is None and owner_id in folders),
        )
        for owner_id, (scope, count) in found.items()
    ]
    return sorted(
        branches, key=lambda one: (ORDER.index(one.scope), one.name.lower(), one.owner_id)
    )


def _owners(rows: QuerySet[MemoryEntry], opened: UUID | None) -> dict[UUID, tuple[str, int]]:
    """Whose documents there are, and how many; the open one in any case."""
    counts = rows.values("owner_id", "scope").annotate(count=Count("pk"))
    found = {
        one["owner_id"]: (one["scope"], one["count"])
        for one in counts.order_by("-count", "owner_id")[:MOST_OWNERS]
    }
    if opened and opened not in found:
        for one in counts.filter(owner_id=opened):
            found[opened] = (one["scope"], one["count"])
    return found


def _within(found: Mapping[UUID, tuple[str, int]], opened: UUID | None) -> list[UUID]:
    """The owners whose documents fit, the open one first and then the smallest."""
    in_turn = sorted(found, key=lambda one: (one != opened, found[one][1]))
    shown: list[UUID] = []
    left = MOST_SHOWN
    for owner_id in in_turn:
        left -= found[owner_id][1]
        if left < 0 and shown:
            break
        shown.append(owner_id)
    return shown


def _hang(root: Folder, entry: MemoryEntry, current: MemoryEntry | None) -> None:
    *way, name = entry.path.split("/")
    is_current = current is not None and entry.pk == current.pk
    folder = root
    for part in way:
        folder = folder.folders.setdefault(part, Folder(name=part))
        folder.is_open = folder.is_open or is_current
    folder.leaves.append(
        Leaf(
            id=entry.pk,
            name=name,
            pinned=entry.pinned,
            never_recall=entry.never_recall,
            untrusted=entry.trust == MemoryEntry.Trust.UNTRUSTED,
            is_current=is_current,
        )
    )


def names_of(owners: Mapping[UUID, tuple[str, int]]) -> dict[UUID, str]:
    """What each owner is called, one query for each kind that is there."""
    by_scope: dict[str, list[UUID]] = {}
    for owner_id, (scope, _) in owners.items():
        by_scope.setdefault(scope, []).append(owner_id)
    names = dict.fromkeys(by_scope.get("workspace", []), "Workspace")
    names |= dict.fromkeys(by_scope.get("user", []), "You")
    if agents := by_scope.get("agent"):
        names |= dict(Agent.objects.filter(pk__in=agents).values_list("pk", "current__name"))
    if sessions := by_scope.get("session"):
        names |= _titles(sessions)
    return names


def agents_of(workspace_id: UUID) -> list[tuple[UUID, str]]:
    """The agents that a document may be kept for, by name."""
    rows = Agent.objects.for_workspace(workspace_id).active().known()
    return list(rows.order_by("current__name").values_list("pk", "current__name")[:MOST_OWNERS])


def _titles(ids: Iterable[UUID]) -> dict[UUID, str]:
    """Sessions are to the right of this app, so by the relation."""
    rows: Any = MemoryEntry._meta.get_field("session").related_model._default_manager
    titles = rows.filter(pk__in=list(ids)).values_list("pk", "title")
    return {pk: title or "Session without a title" for pk, title in titles}
