"""What is done to a document at one press: marked, deleted, brought back, redacted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from config.faults import Conflict, Invalid, MemoryConflict
from memory.api.versions import find_entry
from memory.documents import change_entry, delete_entry, redact, restore_version
from memory.models import MemoryEntry
from memory.owner import person
from memory.writing import Marks
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

#: What the buttons of a document's marks say, and what they set.
MARKS = {
    "pin": (Marks(pinned=True), "Pinned: it is in mind at every turn."),
    "unpin": (Marks(pinned=False), "No longer pinned."),
    "hide": (Marks(never_recall=True), "Searches no longer find it."),
    "unhide": (Marks(never_recall=False), "Searches find it again."),
    "trust": (Marks(trust=MemoryEntry.Trust.TRUSTED), "Trusted from now on."),
    "distrust": (Marks(trust=MemoryEntry.Trust.UNTRUSTED), "Marked as untrusted."),
}


@require_POST
def memory_mark(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Pin, hide from searches, trust; and back."""
    principal, entry = _open(request, entry_id)
    marks, words = MARKS.get(request.POST.get("mark", ""), (None, ""))
    if marks is None:
        raise Invalid("There is no such mark.")
    author = person(principal.user_id)
    with _telling(request, words):
        change_entry(entry, author=author, marks=marks, expected_hash=_seen(request))
    return redirect("memory_document", entry.pk)


@require_POST
def memory_delete(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Put it away. The next page offers to take that back."""
    _, entry = _open(request, entry_id)
    onward = redirect("memory_document", entry.pk)
    with _telling(request):
        delete_entry(entry, expected_hash=_seen(request))
        onward = redirect(f"{reverse('memory')}?gone={entry.pk}&in={entry.owner_id}")
    return onward


@require_POST
def memory_restore(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Bring back an earlier text, or a document that was deleted."""
    principal, entry = _open(request, entry_id)
    number = _number(request)
    if number is None:
        raise Invalid("version is a version's number.")
    with _telling(request, f"Version {number} is back, as the newest one."):
        restore_version(entry, number, author=person(principal.user_id))
    return redirect("memory_document", entry.pk)


@require_POST
def memory_redact(request: HttpRequest, entry_id: UUID) -> HttpResponse:
    """Take the text out of one version, or of all of them, for good."""
    principal, entry = _open(request, entry_id, "admin")
    with _telling(request, "The text is gone. Who wrote when stays on record."):
        redact(entry, by=principal.user_id, number=_number(request), expected_hash=_seen(request))
    return redirect("memory_document", entry.pk)


def _open(request: HttpRequest, entry_id: UUID, verb: Any = "run") -> tuple[Principal, MemoryEntry]:
    principal = principal_of(request)
    entry = find_entry(principal, entry_id)
    authorise(principal, verb, entry)
    return principal, entry


@contextmanager
def _telling(request: HttpRequest, done: str = "") -> Iterator[None]:
    """Say on the next page what was done, or why it was not."""
    try:
        yield
    except MemoryConflict:
        messages.error(request, "It has changed meanwhile. Nothing was done: look at it first.")
    except Conflict as fault:
        messages.error(request, fault.detail)
    else:
        if done:
            messages.success(request, done)


def _seen(request: HttpRequest) -> str | None:
    """The hash of the text that the page showed."""
    name = "expected_hash"
    return request.POST.get(name) or request.GET.get(name) or None


def _number(request: HttpRequest) -> int | None:
    number = request.POST.get("version", "")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 9 else None
