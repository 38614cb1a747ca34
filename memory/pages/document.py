"""One document: read, edited, compared with its past, merged with somebody else's change."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from config.faults import (
    Conflict,
    Fault,
    Forbidden,
    Invalid,
    MemoryConflict,
    NotFound,
    Unauthenticated,
)
from memory.api.versions import find_entry
from memory.diffing import counted, diff_lines
from memory.documents import (
    change_entry,
    content_of,
    delete_entry,
    redact,
    restore_version,
    version_of,
)
from memory.merging import merge
from memory.models import MemoryEntry
from memory.owner import person
from memory.pages.forms import DocumentForm
from memory.pages.memory import frame
from memory.pages.shown import owner_name, past, past_of
from memory.writing import MOST_BYTES, Marks
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

TEMPLATE = "pages/memory/document.html"
#: What the buttons of a document's marks say, and what they set.
MARKS = {
    "pin": (Marks(pinned=True), "Pinned: it is in mind at every turn."),
    "unpin": (Marks(pinned=False), "No longer pinned."),
    "hide": (Marks(never_recall=True), "Searches no longer find it."),
    "unhide": (Marks(never_recall=False), "Searches find it again."),
    "trust": (Marks(trust=MemoryEntry.Trust.TRUSTED), "Trusted from now on."),
    "distrust": (Marks(trust=MemoryEntry.Trust.UNTRUSTED), "Marked as untrusted."),
}


@require_http_methods(["GET", "HEAD", "POST"])
def memory_document(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Show it, or save a change of it."""
    principal = principal_of(request)
    entry = find_entry(principal, entry_id)
    if request.method == "POST":
        authorise(principal, "run", entry)
        return _save(request, principal, entry)
    return page(request, principal, entry)


def page(
    request: HttpRequest, principal: Principal, entry: MemoryEntry, **more: Any
) -> HttpResponse:
    context = frame(principal, current=entry)
    versions = past_of(entry)
    context |= {
        "entry": entry,
        "content": content_of(entry),
        "path": entry.path,
        "owner": owner_name(entry),
        "versions": versions,
        "newest": next((one for one in versions if one.is_current), None),
        "may_redact": principal.may("admin"),
        "most_bytes": MOST_BYTES,
        **_compared(request, entry),
        **more,
    }
    context["may_write"] = context["may_write"] and entry.deleted_at is None
    return render(request, TEMPLATE, context, status=more.get("status", 200))


def _compared(request: HttpRequest, entry: MemoryEntry) -> dict[str, Any]:
    """The version that the address names, beside the newest."""
    asked = request.GET.get("version", "")
    if not (asked.isascii() and asked.isdigit() and len(asked) < 9):
        return {}
    version = version_of(entry, int(asked))
    lines = diff_lines(version.content, content_of(entry))
    added, removed = counted(lines)
    seen = {"compared": past(version, entry), "diff": lines}
    return {**seen, "added": added, "removed": removed, "old_text": version.content}


def _save(request: HttpRequest, principal: Principal, entry: MemoryEntry) -> HttpResponse:
    form = DocumentForm(request.POST)
    if not form.is_valid():
        return page(request, principal, entry, problem="A document needs a path.", status=400)
    mine, path = form.cleaned_data["content"], form.cleaned_data["path"]
    seen = form.cleaned_data["expected_hash"]
    try:
        change_entry(entry, author=_author(principal), content=mine, path=path, expected_hash=seen)
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
    """Both texts side by side, and what comes of putting them together."""
    theirs = content_of(entry)
    base = entry.versions.filter(hash=seen, redacted_at=None).first()
    merged = merge(base.content if base else "", mine, theirs)
    context = {
        **frame(principal, current=entry),
        "entry": entry,
        "mine": mine,
        "theirs": theirs,
        "merged": merged,
        "newest": past(entry.current, entry) if entry.current else None,
        "their_changes": diff_lines(base.content, theirs) if base else [],
        "my_changes": diff_lines(base.content, mine) if base else [],
    }
    return render(request, "pages/memory/merge.html", context, status=409)


def _author(principal: Principal) -> Any:
    return person(principal.user_id)


def _open(request: HttpRequest, entry_id: UUID, verb: Any = "run") -> tuple[Principal, MemoryEntry]:
    principal = principal_of(request)
    entry = find_entry(principal, entry_id)
    authorise(principal, verb, entry)
    return principal, entry


@require_POST
def memory_mark(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Pin, hide from searches, trust; and back."""
    principal, entry = _open(request, entry_id)
    marks, words = MARKS.get(request.POST.get("mark", ""), (None, ""))
    if marks is None:
        raise Invalid("There is no such mark.")
    change_entry(entry, author=_author(principal), marks=marks)
    messages.success(request, words)
    return redirect("memory_document", entry.pk)


@require_POST
def memory_delete(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Put it away. The next page offers to take that back."""
    _, entry = _open(request, entry_id)
    delete_entry(entry, expected_hash=request.POST.get("expected_hash") or None)
    return redirect(f"{reverse('memory')}?gone={entry.pk}&in={entry.owner_id}")


@require_POST
def memory_restore(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Bring back an earlier text, or a document that was deleted."""
    principal, entry = _open(request, entry_id)
    number = request.POST.get("version", "")
    if not (number.isascii() and number.isdigit() and len(number) < 9):
        raise Invalid("version is a version's number.")
    try:
        restore_version(entry, int(number), author=_author(principal))
    except Conflict as fault:
        messages.error(request, fault.detail)
    else:
        messages.success(request, f"Version {number} is back, as the newest one.")
    return redirect("memory_document", entry.pk)


@require_POST
def memory_redact(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Take the text out of one version, or of all of them, for good."""
    principal, entry = _open(request, entry_id, "admin")
    number = request.POST.get("version", "")
    one = int(number) if number.isascii() and number.isdigit() and len(number) < 9 else None
    redact(entry, by=principal.user_id, number=one)
    messages.success(request, "The text is gone. Who wrote when stays on record.")
    return redirect("memory_document", entry.pk)
