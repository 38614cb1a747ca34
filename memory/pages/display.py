"""How the memory pages show documents, versions and search hits; and their forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django import forms
from django.urls import reverse

from agents.models import Agent
from memory.models import LONGEST_PATH, MemoryEntry, MemoryVersion
from memory.recall import Hit
from sessions_app.models import Session

MOST_VERSIONS = 50
#: The labels of the parts of a score, in the order of the bar.
PARTS = {
    "text": "words",
    "meaning": "meaning",
    "neighbours": "around it",
    "named": "speaker",
    "recency": "recency",
    "pin": "pin",
}


@dataclass(frozen=True, kw_only=True)
class VersionRow:
    """One version as a page shows it."""

    number: int
    who: str
    created_at: datetime
    bytes: int
    is_current: bool
    is_redacted: bool
    session_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One part of a score: its place in the bar, in percent of the best hit's score."""

    name: str
    words: str
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
    def told(self) -> str:
        """Describe the bar for screen readers."""
        return ", ".join(f"{one.words} {one.value:.2f}" for one in self.slices)


def version_rows(entry: MemoryEntry) -> list[VersionRow]:
    """Return the newest versions first."""
    rows = entry.versions.select_related("created_by").defer("content")[:MOST_VERSIONS]
    return [version_row(version, entry) for version in rows]


def version_row(version: MemoryVersion, entry: MemoryEntry) -> VersionRow:
    return VersionRow(
        number=version.number,
        who=who_wrote(version),
        created_at=version.created_at,
        bytes=version.bytes,
        is_current=version.pk == entry.current_id,
        is_redacted=version.redacted_at is not None,
        session_url=_session_url(version.session_id),
    )


def who_wrote(version: MemoryVersion) -> str:
    """Return the name of a version's author."""
    name = version.created_by.display_name if version.created_by else ""
    match version.author:
        case MemoryVersion.Author.TOOL:
            return f"Agent, by {version.tool}" if version.tool else "Agent"
        case MemoryVersion.Author.IMPORT:
            return f"Import by {name}" if name else "Import"
        case MemoryVersion.Author.RUNTIME:
            return "Switchyard"
        case _:
            return name or "A person"


def _session_url(session_id: UUID | None) -> str:
    """Return the address of the session in which a version was written."""
    return reverse("chat_session", args=[session_id]) if session_id else ""


def owner_name(entry: MemoryEntry) -> str:
    return names_of({entry.owner_id: (entry.scope, 1)}).get(entry.owner_id, "Deleted")


def search_hits(hits: Sequence[Hit]) -> list[SearchHit]:
    """Return every hit with the bar of its score, on the scale of the best one.

    Short chunks are shown with the lines around them, so hits with equal excerpts are merged.
    """
    unique: dict[tuple[UUID, str], Hit] = {}
    for hit in hits:
        unique.setdefault((hit.entry_id, hit.excerpt), hit)
    hits = list(unique.values())
    entries = MemoryEntry.objects.filter(pk__in=[hit.entry_id for hit in hits])
    of = {entry.pk: entry for entry in entries.only("pk", "owner_id", "scope")}
    names = names_of({one.owner_id: (one.scope, 1) for one in of.values()})
    best = max((hit.score for hit in hits), default=0) or 1
    return [
        SearchHit(
            hit=hit,
            slices=slices(hit, best),
            owner=names.get(of[hit.entry_id].owner_id, "") if hit.entry_id in of else "",
        )
        for hit in hits
    ]


def slices(hit: Hit, best: float) -> list[Slice]:
    made: list[Slice] = []
    at = 0.0
    for name, words in PARTS.items():
        value = hit.parts.get(name, 0.0)
        width = round(100 * value / best, 2)
        if width > 0:
            made.append(Slice(name=name, words=words, value=value, start=round(at, 2), width=width))
        at += width
    return made


#: Longer than any document may be, so that the service reports the error and not the form.
LONGEST_TEXT = 400_000


class RawTextField(forms.CharField):
    """Keeps text as it was typed: normalises line ends and trims nothing."""

    def __init__(self, **extra: Any) -> None:
        super().__init__(strip=False, required=False, max_length=LONGEST_TEXT, **extra)

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n").replace("\r", "\n")


def owners(agents: Iterable[tuple[UUID, str]]) -> list[tuple[str, Any]]:
    """Return the choices for the owner of a document."""
    return [
        ("workspace", "Workspace: every agent sees it"),
        ("user", "You: agents see it in your own sessions"),
        ("An agent", [(f"agent:{pk}", name) for pk, name in agents]),
    ]


class NewDocument(forms.Form):
    path = forms.CharField(
        max_length=LONGEST_PATH,
        help_text="Use slashes for folders, as in learnings/deploying.md.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    owner = forms.ChoiceField(label="Owner")
    content = RawTextField(
        label="Text",
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "true"}),
        help_text="Markdown, at most 100,000 bytes.",
    )

    def __init__(self, *given: Any, agents: Iterable[tuple[UUID, str]], **extra: Any) -> None:
        super().__init__(*given, **extra)
        self.fields["owner"].choices = owners(agents)  # type: ignore[attr-defined]


class DocumentForm(forms.Form):
    """A change. The hash identifies the text that it is based on."""

    path = forms.CharField(max_length=LONGEST_PATH)
    content = RawTextField()
    expected_hash = forms.CharField(max_length=64)


class ImportForm(forms.Form):
    owner = forms.ChoiceField(label="Owner")
    file = forms.FileField(
        label="Zip of Markdown files", widget=forms.ClearableFileInput(attrs={"accept": ".zip"})
    )
    overwrite = forms.BooleanField(
        required=False, label="Also replace documents that have changed since the export"
    )

    def __init__(self, *given: Any, agents: Iterable[tuple[UUID, str]], **extra: Any) -> None:
        super().__init__(*given, **extra)
        self.fields["owner"].choices = owners(agents)  # type: ignore[attr-defined]


MOST_OWNERS = 200


def names_of(owners: Mapping[UUID, tuple[str, int]]) -> dict[UUID, str]:
    """Return the name of each owner, with one query for each kind."""
    by_scope: dict[str, list[UUID]] = {}
    for owner_id, (scope, _) in owners.items():
        by_scope.setdefault(scope, []).append(owner_id)
    names = dict.fromkeys(by_scope.get("workspace", []), "Workspace")
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
