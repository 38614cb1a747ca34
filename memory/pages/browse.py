"""Pages: the tree of documents, search, deleted documents, a new document, export and import."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from core.exceptions import Fault, Forbidden, Invalid, NotFound, Unauthenticated
from core.validation import read_input
from memory.api.documents import IN_MEMORY, MOST_BYTES, ZIP
from memory.api.serializers import owner_for, reader_for, workspace_reader
from memory.archive import Imported, import_archive, read_archive, write_archive
from memory.documents import ABSENT, DocumentInput, write_entry
from memory.models import MemoryEntry
from memory.ownership import Owner, Reader, owner_within, person
from memory.pages.display import (
    MOST_OWNERS,
    ImportForm,
    NewDocument,
    agents_of,
    names_of,
    search_hits,
)
from memory.recall import LONGEST_QUERY, Search, recall
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

HITS = 20
MOST_DELETED = 100


@require_safe
def memory(request: HttpRequest) -> HttpResponse:
    """Show the workspace's memory and the person's own, or the results of a search."""
    principal = principal_of(request)
    reader = workspace_reader(principal)
    words = request.GET.get("q", "").replace("\0", " ").strip()[:LONGEST_QUERY]
    seen_by = uuid_in(request, "as")
    context = frame(principal, open_owner=uuid_in(request, "in"))
    context |= {"words": words, "seen_by": seen_by, "gone": _gone(reader, uuid_in(request, "gone"))}
    if words:
        agent = str(seen_by) if seen_by else None
        hits = recall(reader_for(principal, agent=agent, session=None), words, Search(limit=HITS))
        context["found"] = search_hits(hits)
    elif "deleted" in request.GET:
        context["deleted"] = _deleted(reader)
    return render(request, "pages/memory/memory.html", context)


def frame(
    principal: Principal, *, current: MemoryEntry | None = None, open_owner: UUID | None = None
) -> dict[str, Any]:
    """Return the context that every page of memory needs."""
    reader = workspace_reader(principal)
    return {
        "branches": build_tree(reader, current=current, open_owner=open_owner),
        "agents": agents_of(reader.workspace_id),
        "may_write": principal.may("run"),
    }


def uuid_in(request: HttpRequest, name: str) -> UUID | None:
    try:
        return UUID(request.GET.get(name, ""))
    except ValueError:
        return None


def _gone(reader: Any, entry_id: UUID | None) -> MemoryEntry | None:
    """Return the document that was just deleted, to offer an undo."""
    if entry_id is None:
        return None
    rows = MemoryEntry.objects.seen_by(reader).filter(deleted_at__isnull=False)
    return rows.select_related("current").filter(pk=entry_id).first()


def _deleted(reader: Any) -> list[dict[str, Any]]:
    rows = MemoryEntry.objects.seen_by(reader).filter(deleted_at__isnull=False)
    found = list(rows.select_related("current").order_by("-deleted_at")[:MOST_DELETED])
    names = names_of({one.owner_id: (one.scope, 1) for one in found})
    return [{"entry": one, "owner": names.get(one.owner_id, "Deleted")} for one in found]


@require_http_methods(["GET", "HEAD", "POST"])
def memory_new(request: HttpRequest) -> HttpResponse:
    """Create a document."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "run")
    form = NewDocument(
        request.POST or None, agents=agents_of(workspace_id), initial=_initial(request)
    )
    if request.method == "POST" and form.is_valid():
        try:
            return redirect("memory_document", _write(principal, form).pk)
        except (Unauthenticated, Forbidden, NotFound):
            raise
        except Fault as fault:
            form.add_error("path", fault.detail)
    context = {**frame(principal), "form": form}
    status = 400 if form.errors else 200
    return render(request, "pages/memory/new.html", context, status=status)


def _initial(request: HttpRequest) -> dict[str, Any]:
    owner = uuid_in(request, "in")
    return {"owner": f"agent:{owner}"} if owner else {}


def _write(principal: Principal, form: NewDocument) -> MemoryEntry:
    scope, _, agent = form.cleaned_data["owner"].partition(":")
    fields = {name: form.cleaned_data[name] for name in ("path", "content")}
    given = read_input(DocumentInput, {**fields, "scope": scope, "agent": agent or None})
    return write_entry(
        owner=owner_for(principal, given),
        path=given.path,
        content=given.content,
        author=person(principal.user_id),
        expected_hash=ABSENT,
    )


#: How many documents the tree shows at once; those of the open owner come first.
MOST_SHOWN = 400
ICONS = {"workspace": "building-2", "agent": "bot", "user": "user", "session": "message-square"}
ORDER = ("workspace", "user", "agent", "session")


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One document in the tree."""

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
        return bool(self.root.folders or self.root.leaves)

    @property
    def left_out(self) -> int:
        return self.count - MOST_SHOWN if self.is_shown and self.count > MOST_SHOWN else 0


def build_tree(
    reader: Reader, *, current: MemoryEntry | None, open_owner: UUID | None
) -> list[Branch]:
    """Return the branches that a reader may see. Four queries, for any number of documents."""
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
        _add_leaf(folders.setdefault(entry.owner_id, Folder(name="")), entry, current)
    names = names_of(found)
    branches = [
        Branch(
            owner_id=owner_id,
            scope=scope,
            name=names.get(owner_id, "Deleted"),
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
    """Return the scope and the number of documents of each owner, always including the open one."""
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
    """Return the owners whose documents fit: the open one first, then the smallest."""
    in_turn = sorted(found, key=lambda one: (one != opened, found[one][1]))
    shown: list[UUID] = []
    left = MOST_SHOWN
    for owner_id in in_turn:
        left -= found[owner_id][1]
        if left < 0 and shown:
            break
        shown.append(owner_id)
    return shown


def _add_leaf(root: Folder, entry: MemoryEntry, current: MemoryEntry | None) -> None:
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


def owner_named(principal: Principal, text: str) -> Owner:
    """Return the owner that `workspace`, `user` or `agent:ID` names."""
    scope, _, ref = text.partition(":")
    if scope not in ("workspace", "user", "agent") or (scope == "agent") != bool(ref):
        raise NotFound
    return owner_within(reader_for(principal, agent=ref or None, session=None), scope)


@require_safe
def memory_export(request: HttpRequest) -> FileResponse:
    """Export one owner's documents as a zip, to edit with any tool."""
    principal = principal_of(request)
    authorise(principal, "read")
    owner = owner_named(principal, request.GET.get("of", ""))
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by the response
    write_archive(owner, file)
    file.seek(0)
    name = f"memory-{owner.scope.value}-{str(owner.owner_id)[-12:]}.zip"
    return FileResponse(file, as_attachment=True, filename=name, content_type=ZIP)


@require_http_methods(["GET", "HEAD", "POST"])
def memory_import(request: HttpRequest) -> HttpResponse:
    """Import every document of an archive, or none."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "run")
    given = (request.POST, request.FILES) if request.method == "POST" else ()
    form = ImportForm(*given, agents=agents_of(workspace_id))
    if request.method == "POST" and form.is_valid():
        try:
            owner, done = _import(principal, form)
        except (Unauthenticated, Forbidden, NotFound):
            raise
        except Fault as fault:
            form.add_error("file", fault.detail)
        else:
            messages.success(request, _summary(done))
            return redirect(f"{reverse('memory')}?in={owner}")
    context = {**frame(principal), "form": form}
    status = 400 if form.errors else 200
    return render(request, "pages/memory/import.html", context, status=status)


def _import(principal: Principal, form: ImportForm) -> tuple[UUID, Imported]:
    owner = owner_named(principal, form.cleaned_data["owner"])
    file = form.cleaned_data["file"]
    if file.size > MOST_BYTES:
        raise Invalid(f"The file is larger than {MOST_BYTES // 1_000_000} MB.")
    by = principal.user_id
    done = import_archive(
        owner, read_archive(file), by=by, overwrite=form.cleaned_data["overwrite"]
    )
    return owner.owner_id, done


def _summary(done: Imported) -> str:
    return f"{done.created} created, {done.changed} changed, {done.unchanged} unchanged."
