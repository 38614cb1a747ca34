"""The memory page: the tree, what a search found and why, what was deleted, a new document."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from config.faults import Fault, Forbidden, NotFound, Unauthenticated
from memory.api.inputs import everything, reader_for
from memory.models import MemoryEntry
from memory.owner import owner_within, person
from memory.pages.forms import NewDocument
from memory.pages.shown import found_with
from memory.pages.tree import agents_of, grow, names_of
from memory.recall import LONGEST_QUERY, Search, recall
from memory.writing import ABSENT, write_entry
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

HITS = 20
MOST_DELETED = 100


@require_safe
def memory(request: HttpRequest) -> HttpResponse:
    """Everything that the workspace remembers, and one's own."""
    principal = principal_of(request)
    reader = everything(principal)
    words = request.GET.get("q", "").replace("\0", " ").strip()[:LONGEST_QUERY]
    seen_by = uuid_in(request, "as")
    context = frame(principal, open_owner=uuid_in(request, "in"))
    context |= {"words": words, "seen_by": seen_by, "gone": _gone(reader, uuid_in(request, "gone"))}
    if words:
        agent = str(seen_by) if seen_by else None
        hits = recall(reader_for(principal, agent=agent, session=None), words, Search(limit=HITS))
        context["found"] = found_with(hits)
    elif "deleted" in request.GET:
        context["deleted"] = _deleted(reader)
    return render(request, "pages/memory/memory.html", context)


def frame(
    principal: Principal, *, current: MemoryEntry | None = None, open_owner: UUID | None = None
) -> dict[str, Any]:
    """What stands around whatever the middle of the page shows."""
    reader = everything(principal)
    return {
        "branches": grow(reader, current=current, open_owner=open_owner),
        "agents": agents_of(reader.workspace_id),
        "may_write": principal.may("run"),
    }


def uuid_in(request: HttpRequest, name: str) -> UUID | None:
    try:
        return UUID(request.GET.get(name, ""))
    except ValueError:
        return None


def _gone(reader: Any, entry_id: UUID | None) -> MemoryEntry | None:
    """What was deleted a moment ago, to take it back."""
    if entry_id is None:
        return None
    rows = MemoryEntry.objects.seen_by(reader).filter(deleted_at__isnull=False)
    return rows.select_related("current").filter(pk=entry_id).first()


def _deleted(reader: Any) -> list[dict[str, Any]]:
    rows = MemoryEntry.objects.seen_by(reader).filter(deleted_at__isnull=False)
    found = list(rows.select_related("current").order_by("-deleted_at")[:MOST_DELETED])
    names = names_of({one.owner_id: (one.scope, 1) for one in found})
    return [{"entry": one, "owner": names.get(one.owner_id, "Gone")} for one in found]


@require_http_methods(["GET", "HEAD", "POST"])
def memory_new(request: HttpRequest) -> HttpResponse:
    """Write a document that was not there."""
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
    scope, _, ref = form.cleaned_data["owner"].partition(":")
    reader = reader_for(principal, agent=ref or None, session=None)
    return write_entry(
        owner=owner_within(reader, scope),
        path=form.cleaned_data["path"],
        content=form.cleaned_data["content"],
        author=person(principal.user_id),
        expected_hash=ABSENT,
    )
