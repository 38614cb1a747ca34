"""One document: read, edited, compared with its past, merged with somebody else's change."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from config.faults import (
    Fault,
    Forbidden,
    MemoryConflict,
    NotFound,
    Unauthenticated,
)
from memory.api.versions import find_entry
from memory.diffing import counted, diff_lines
from memory.documents import (
    change_entry,
    content_of,
    version_of,
)
from memory.merging import merge
from memory.models import MemoryEntry
from memory.owner import person
from memory.pages.forms import DocumentForm
from memory.pages.memory import frame
from memory.pages.shown import owner_name, past, past_of
from memory.writing import MOST_BYTES
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

TEMPLATE = "pages/memory/document.html"


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
