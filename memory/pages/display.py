"""What the memory pages show: the tree of documents, search hits with their scores, and forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django import forms
from django.db.models import Count, QuerySet

from agents.models import Agent
from memory.models import LONGEST_PATH, MemoryEntry
from memory.ownership import Reader
from memory.recall import Hit
from sessions_app.models import Session

MOST_OWNERS = 200


def owner_names(scopes: Mapping[UUID, str]) -> dict[UUID, str]:
    """Return the name of each owner, given its scope, with one query for each kind."""
    by_scope: dict[str, list[UUID]] = {}
    for owner_id, scope in scopes.items():
        by_scope.setdefault(scope, []).append(owner_id)
    names = dict.fromkeys(scopes, "Deleted")
    names |= dict.fromkeys(by_scope.get("workspace", []), "Workspace")
    names |= dict.fromkeys(by_scope.get("user", []), "You")
    if agents := by_scope.get("agent"):
        names |= dict(Agent.objects.filter(pk__in=agents).values_list("pk", "current__name"))
    if sessions := by_scope.get("session"):
        titles = Session.objects.filter(pk__in=sessions).values_list("pk", "title")
        names |= {pk: title or "Untitled session" for pk, title in titles}
    return names


def agents_of(workspace_id: UUID) -> list[tuple[UUID, str]]:
    """Return the agents that a document can belong to, by name."""
    rows = Agent.objects.for_workspace(workspace_id).active().known()
    return list(rows.order_by("current__name").values_list("pk", "current__name")[:MOST_OWNERS])


# ── The tree ─────────────────────────────────────────────────────────────────

#: How many documents the tree shows at once; those of the open owner come first.
MOST_SHOWN = 400
ICONS = {"workspace": "building-2", "agent": "bot", "user": "user", "session": "message-square"}
ORDER = ("workspace", "user", "agent", "session")


@dataclass(kw_only=True)
class Folder:
    name: str = ""
    by_name: dict[str, Folder] = field(default_factory=dict)
    #: The documents in the folder, each with its name in it.
    documents: list[tuple[str, MemoryEntry]] = field(default_factory=list)

    @property
    def folders(self) -> list[Folder]:
        """The folders in this one. A template would look up `by_name.values` as a folder's name."""
        return list(self.by_name.values())

    def add(self, entry: MemoryEntry) -> None:
        *parents, name = entry.path.split("/")
        folder = self
        for parent in parents:
            folder = folder.by_name.setdefault(parent, Folder(name=parent))
        folder.documents.append((name, entry))


@dataclass(frozen=True, kw_only=True)
class Branch:
    """The memory of one owner in the tree."""

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
        """Return whether its documents are shown, or only linked."""
        return bool(self.root.by_name or self.root.documents)

    @property
    def left_out(self) -> int:
        return self.count - MOST_SHOWN if self.is_shown and self.count > MOST_SHOWN else 0


def build_tree(
    reader: Reader, *, current: MemoryEntry | None, open_owner: UUID | None
) -> list[Branch]:
    """Return the branches that a reader may see. Four queries, for any number of documents."""
    rows = MemoryEntry.objects.seen_by(reader).kept().filter(current__isnull=False)
    opened = current.owner_id if current else open_owner
    owners = _owners(rows, opened)
    roots: dict[UUID, Folder] = {}
    shown = rows.filter(owner_id__in=_owners_shown(owners, opened)).order_by("path")
    fields = ("id", "path", "owner_id", "pinned", "never_recall", "trust")
    for entry in shown.only(*fields)[: MOST_SHOWN * 2]:
        roots.setdefault(entry.owner_id, Folder()).add(entry)
    names = owner_names({owner_id: scope for owner_id, (scope, _) in owners.items()})
    branches = [
        Branch(
            owner_id=owner_id,
            scope=scope,
            name=names[owner_id],
            count=count,
            root=roots.get(owner_id, Folder()),
            is_open=owner_id == opened or (opened is None and owner_id in roots),
        )
        for owner_id, (scope, count) in owners.items()
    ]
    return sorted(
        branches, key=lambda one: (ORDER.index(one.scope), one.name.lower(), one.owner_id)
    )


def _owners(rows: QuerySet[MemoryEntry], opened: UUID | None) -> dict[UUID, tuple[str, int]]:
    """Return the scope and the number of documents of each owner, always including the open one."""
    counts = rows.values("owner_id", "scope").annotate(count=Count("pk"))
    largest = counts.order_by("-count", "owner_id")[:MOST_OWNERS]
    owners = {one["owner_id"]: (one["scope"], one["count"]) for one in largest}
    if opened and opened not in owners:
        for one in counts.filter(owner_id=opened):
            owners[opened] = (one["scope"], one["count"])
    return owners


def _owners_shown(owners: Mapping[UUID, tuple[str, int]], opened: UUID | None) -> list[UUID]:
    """Return the owners whose documents fit: the open one first, then the smallest."""
    shown: list[UUID] = []
    left = MOST_SHOWN
    for owner_id in sorted(owners, key=lambda one: (one != opened, owners[one][1])):
        left -= owners[owner_id][1]
        if left < 0 and shown:
            break
        shown.append(owner_id)
    return shown


# ── Search hits ──────────────────────────────────────────────────────────────

#: The labels of the parts of a score, in the order of the bar.
PARTS = {
    "text": "words",
    "meaning": "meaning",
    "neighbours": "around it",
    "named": "speaker",
    "dated": "date",
    "recency": "recency",
    "pin": "pin",
}


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One part of a score: its place in the bar, in percent of the best hit's score."""

    name: str
    label: str
    value: float
    start: float
    width: float


@dataclass(frozen=True, kw_only=True)
class SearchHit:
    """One hit with the bar of its score."""

    hit: Hit
    slices: list[Slice]
    owner: str

    @property
    def description(self) -> str:
        """Describe the bar for screen readers."""
        return ", ".join(f"{one.label} {one.value:.2f}" for one in self.slices)


def search_hits(hits: Sequence[Hit]) -> list[SearchHit]:
    """Return every hit with the bar of its score, on the scale of the best one.

    Short chunks are shown with the lines around them, so hits with equal excerpts are merged.
    """
    unique: dict[tuple[UUID, str], Hit] = {}
    for hit in hits:
        unique.setdefault((hit.entry_id, hit.excerpt), hit)
    entries = MemoryEntry.objects.filter(pk__in=[hit.entry_id for hit in unique.values()])
    owners = {
        pk: (owner, scope) for pk, owner, scope in entries.values_list("pk", "owner_id", "scope")
    }
    names = owner_names(dict(owners.values()))
    best = max((hit.score for hit in unique.values()), default=0) or 1
    return [
        SearchHit(
            hit=hit,
            slices=slices(hit, best),
            owner=names[owners[hit.entry_id][0]] if hit.entry_id in owners else "",
        )
        for hit in unique.values()
    ]


def slices(hit: Hit, best: float) -> list[Slice]:
    made: list[Slice] = []
    start = 0.0
    for name, label in PARTS.items():
        value = hit.parts.get(name, 0.0)
        width = round(100 * value / best, 2)
        if width > 0:
            made.append(
                Slice(name=name, label=label, value=value, start=round(start, 2), width=width)
            )
        start += width
    return made


# ── Forms ────────────────────────────────────────────────────────────────────

#: Longer than any document may be, so that the service reports the error and not the form.
LONGEST_TEXT = 400_000


class RawTextField(forms.CharField):
    """Keeps text as it was typed: normalises line ends and trims nothing."""

    def __init__(self, **extra: Any) -> None:
        super().__init__(strip=False, required=False, max_length=LONGEST_TEXT, **extra)

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n").replace("\r", "\n")


class OwnerForm(forms.Form):
    """A form that chooses the owner of documents."""

    owner = forms.ChoiceField(label="Owner")

    def __init__(self, *given: Any, agents: Iterable[tuple[UUID, str]], **extra: Any) -> None:
        super().__init__(*given, **extra)
        self.fields["owner"].choices = [  # type: ignore[attr-defined]
            ("workspace", "Workspace: every agent sees it"),
            ("user", "You: agents see it in your own sessions"),
            ("An agent", [(f"agent:{pk}", name) for pk, name in agents]),
        ]


class NewDocument(OwnerForm):
    path = forms.CharField(
        max_length=LONGEST_PATH,
        help_text="Use slashes for folders, as in learnings/deploying.md.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    content = RawTextField(
        label="Text",
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "true"}),
        help_text="Markdown, at most 100,000 bytes.",
    )


class DocumentForm(forms.Form):
    """A change. The hash identifies the text that it is based on."""

    path = forms.CharField(max_length=LONGEST_PATH)
    content = RawTextField()
    expected_hash = forms.CharField(max_length=64)


class ImportForm(OwnerForm):
    file = forms.FileField(
        label="Zip of Markdown files", widget=forms.ClearableFileInput(attrs={"accept": ".zip"})
    )
    overwrite = forms.BooleanField(
        required=False, label="Also replace documents that have changed since the export"
    )
