"""Pages of one document: read, edit, compare versions, and merge conflicting changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from agents.providers.base import estimate_tokens
from core.exceptions import Conflict, Fault, Forbidden, Invalid, NotFound, Unauthenticated
from memory import documents
from memory.api.documents import find_entry
from memory.diffs import counted, diff_lines, merge
from memory.documents import Marks
from memory.exceptions import MemoryConflict
from memory.models import MemoryEntry
from memory.ownership import person
from memory.pages.browse import frame
from memory.pages.display import DocumentForm, owner_names
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

MOST_VERSIONS = 50


@require_http_methods(["GET", "HEAD", "POST"])
def memory_document(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Show a document, or save a change."""
    principal = principal_of(request)
    entry = find_entry(principal, entry_id)
    if request.method == "POST":
        authorise(principal, "run", entry)
        return _save(request, principal, entry)
    return page(request, principal, entry)


def page(
    request: HttpRequest, principal: Principal, entry: MemoryEntry, **more: Any
) -> HttpResponse:
    versions = entry.versions.select_related("created_by").defer("content")
    content = documents.content_of(entry)
    context = frame(principal, current=entry)
    context |= {
        "entry": entry,
        "content": content,
        "tokens": f"{estimate_tokens(content):,}",
        "path": entry.path,
        "owner": owner_names({entry.owner_id: entry.scope})[entry.owner_id],
        "versions": versions[:MOST_VERSIONS],
        "may_redact": principal.may("admin"),
        "most_bytes": documents.MOST_BYTES,
        **_compared(request, entry),
        **more,
    }
    context["may_write"] = context["may_write"] and entry.deleted_at is None
    return render(request, "pages/memory/document.html", context, status=more.get("status", 200))


def _compared(request: HttpRequest, entry: MemoryEntry) -> dict[str, Any]:
    """Compare the version in the query with the newest."""
    number = _number(request.GET)
    if number is None:
        return {}
    version = documents.version_of(entry, number)
    lines = diff_lines(version.content, documents.content_of(entry))
    added, removed = counted(lines)
    return {"compared": version, "diff": lines, "added": added, "removed": removed}


def _save(request: HttpRequest, principal: Principal, entry: MemoryEntry) -> HttpResponse:
    form = DocumentForm(request.POST)
    if not form.is_valid():
        return page(request, principal, entry, problem="Enter a path.", status=400)
    mine, path = form.cleaned_data["content"], form.cleaned_data["path"]
    seen = form.cleaned_data["expected_hash"]
    try:
        documents.change_entry(
            entry,
            author=person(principal.user_id),
            content=mine,
            path=path,
            expected_hash=seen,
        )
    except MemoryConflict:
        return _clash(request, principal, find_entry(principal, entry.pk), mine, seen)
    except (Unauthenticated, Forbidden, NotFound):
        raise
    except Fault as fault:
        typed = {"content": mine, "path": path, "problem": fault.detail, "status": fault.status}
        return page(request, principal, entry, **typed)
    messages.success(request, "Saved.")
    return redirect("memory_document", entry.pk)


def _clash(
    request: HttpRequest, principal: Principal, entry: MemoryEntry, mine: str, seen: str
) -> HttpResponse:
    """Show both texts side by side, and the merged text."""
    theirs = documents.content_of(entry)
    base = entry.versions.filter(hash=seen, redacted_at=None).first()
    merged = merge(base.content if base else "", mine, theirs)
    context = {
        **frame(principal, current=entry),
        "entry": entry,
        "mine": mine,
        "theirs": theirs,
        "merged": merged,
        "their_changes": diff_lines(base.content, theirs) if base else [],
        "my_changes": diff_lines(base.content, mine) if base else [],
    }
    return render(request, "pages/memory/merge.html", context, status=409)


#: The flags that buttons set, and the message that each shows.
MARKS = {
    "pin": (Marks(pinned=True), "Pinned. Agents see it at every turn."),
    "unpin": (Marks(pinned=False), "Unpinned."),
    "hide": (Marks(never_recall=True), "Hidden from searches."),
    "unhide": (Marks(never_recall=False), "Searches find it again."),
    "trust": (Marks(trust=MemoryEntry.Trust.TRUSTED), "Marked as trusted."),
    "distrust": (Marks(trust=MemoryEntry.Trust.UNTRUSTED), "Marked as untrusted."),
}


@require_POST
def memory_mark(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Pin a document, hide it from searches or trust it, or undo that."""
    principal, entry = _open(request, entry_id)
    marks, done = MARKS.get(request.POST.get("mark", ""), (None, ""))
    if marks is None:
        raise Invalid("This flag does not exist.")
    author = person(principal.user_id)
    with _report(request, done):
        documents.change_entry(entry, author=author, marks=marks, expected_hash=_seen(request))
    return redirect("memory_document", entry.pk)


@require_POST
def memory_delete(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Delete a document. The next page offers to undo that."""
    _, entry = _open(request, entry_id)
    onward = redirect("memory_document", entry.pk)
    with _report(request):
        documents.delete_entry(entry, expected_hash=_seen(request))
        onward = redirect(f"{reverse('memory')}?gone={entry.pk}&in={entry.owner_id}")
    return onward


@require_POST
def memory_restore(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Restore an earlier version, or a deleted document."""
    principal, entry = _open(request, entry_id)
    number = _number(request.POST)
    if number is None:
        raise Invalid("version must be the number of a version.")
    with _report(request, f"Version {number} was restored as the newest version."):
        documents.restore_version(entry, number, author=person(principal.user_id))
    return redirect("memory_document", entry.pk)


@require_POST
def memory_redact(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Remove the text of one version, or of all, permanently."""
    principal, entry = _open(request, entry_id, "admin")
    with _report(request, "The text was removed. Authors and dates stay on record."):
        documents.redact(
            entry, by=principal.user_id, number=_number(request.POST), expected_hash=_seen(request)
        )
    return redirect("memory_document", entry.pk)


def _open(request: HttpRequest, entry_id: UUID, verb: Any = "run") -> tuple[Principal, MemoryEntry]:
    principal = principal_of(request)
    entry = find_entry(principal, entry_id)
    authorise(principal, verb, entry)
    return principal, entry


@contextmanager
def _report(request: HttpRequest, done: str = "") -> Iterator[None]:
    """Show on the next page what was done, or why it was not."""
    try:
        yield
    except MemoryConflict:
        messages.error(request, "The document has changed. Nothing was done; review it first.")
    except Conflict as fault:
        messages.error(request, fault.detail)
    else:
        if done:
            messages.success(request, done)


def _seen(request: HttpRequest) -> str | None:
    """Return the hash of the text that the page showed."""
    name = "expected_hash"
    return request.POST.get(name) or request.GET.get(name) or None


def _number(given: QueryDict) -> int | None:
    """Return the number of a version that a form or a query string names."""
    number = given.get("version", "")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 9 else None
