"""Pages: the tree of documents, search, deleted documents, a new document, export and import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from core.exceptions import Fault, Forbidden, Invalid, NotFound, Unauthenticated
from core.throttling import search_slot
from core.validation import read_input
from memory.api.documents import MOST_BYTES, export_response, import_file
from memory.api.serializers import owner_for, reader_for, workspace_reader
from memory.archive import Imported, is_small, is_small_archive
from memory.documents import ABSENT, DocumentInput, write_entry
from memory.models import MemoryEntry
from memory.ownership import Owner, Reader, owner_within, person
from memory.pages import display
from memory.recall import LONGEST_QUERY, Search, find
from orchestrator.models import Workflow
from orchestrator.transfers import start_memory_export, start_memory_import
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

HITS = 20
MOST_DELETED = 100
T = TypeVar("T")


@require_safe
def memory(request: HttpRequest) -> HttpResponse:
    """Show the workspace's memory and the person's own, or the results of a search."""
    principal = principal_of(request)
    reader = workspace_reader(principal)
    query = request.GET.get("q", "").replace("\0", " ").strip()[:LONGEST_QUERY]
    searched_as = uuid_in(request, "as")
    context = frame(principal, open_owner=uuid_in(request, "in")) | {
        "query": query,
        "searched_as": searched_as,
        "just_deleted": _deleted(reader).filter(pk=uuid_in(request, "gone")).first(),
    }
    if query:
        agent = str(searched_as) if searched_as else None
        searched = reader_for(principal, agent=agent, session=None)
        with search_slot(reader.workspace_id):
            found = find(searched, query, Search(limit=HITS))
        context |= {"hits": display.search_hits(found.hits), "copies": found.copies}
    elif "deleted" in request.GET:
        gone = list(_deleted(reader).order_by("-deleted_at")[:MOST_DELETED])
        names = display.owner_names({one.owner_id: one.scope for one in gone})
        context["deleted"] = [(one, names[one.owner_id]) for one in gone]
    return render(request, "pages/memory/memory.html", context)


def frame(
    principal: Principal, *, current: MemoryEntry | None = None, open_owner: UUID | None = None
) -> dict[str, Any]:
    """Return the context that every page of memory needs."""
    reader = workspace_reader(principal)
    return {
        "branches": display.build_tree(reader, current=current, open_owner=open_owner),
        "current": current,
        "agents": display.agents_of(reader.workspace_id),
        "may_write": principal.may("run"),
    }


def uuid_in(request: HttpRequest, name: str) -> UUID | None:
    try:
        return UUID(request.GET.get(name, ""))
    except ValueError:
        return None


def _deleted(reader: Reader) -> Any:
    rows = MemoryEntry.objects.seen_by(reader).filter(deleted_at__isnull=False)
    return rows.select_related("current")


@require_http_methods(["GET", "HEAD", "POST"])
def memory_new(request: HttpRequest) -> HttpResponse:
    """Create a document."""
    principal = principal_of(request)
    agents = display.agents_of(authorise(principal, "run"))
    owner = uuid_in(request, "in")
    initial = {"owner": f"agent:{owner}"} if owner else {}
    form = display.NewDocument(request.POST or None, agents=agents, initial=initial)
    made = _submit(form, "path", lambda: _write(principal, **form.cleaned_data))
    if made is None:
        return _form_page(request, "pages/memory/new.html", form)
    return redirect("memory_document", made.pk)


def _write(principal: Principal, *, owner: str, **fields: str) -> MemoryEntry:
    scope, _, agent = owner.partition(":")
    given = read_input(DocumentInput, {**fields, "scope": scope, "agent": agent or None})
    return write_entry(
        owner=owner_for(principal, given),
        path=given.path,
        content=given.content,
        author=person(principal.user_id),
        expected_hash=ABSENT,
    )


def _submit(form: forms.Form, field: str, act: Callable[[], T]) -> T | None:
    """Call `act` if the form is valid, or show beside this field why it failed and return None."""
    if not form.is_valid():
        return None
    try:
        return act()
    except (Unauthenticated, Forbidden, NotFound):
        raise
    except Fault as fault:
        form.add_error(field, fault.detail)
        return None


def _form_page(request: HttpRequest, template: str, form: forms.Form) -> HttpResponse:
    context = {**frame(principal_of(request)), "form": form}
    return render(request, template, context, status=400 if form.errors else 200)


def owner_named(principal: Principal, text: str) -> Owner:
    """Return the owner that `workspace`, `user` or `agent:ID` names."""
    scope, _, ref = text.partition(":")
    if scope not in ("workspace", "user", "agent") or (scope == "agent") != bool(ref):
        raise NotFound
    return owner_within(reader_for(principal, agent=ref or None, session=None), scope)


@require_http_methods(["GET", "HEAD", "POST"])
def memory_export(request: HttpRequest) -> HttpResponseBase:
    """Export one owner's documents as a zip, to edit with any tool.

    If they are many, a workflow makes the zip. A person's own are not shown to the others, who see
    the workflow, so they are always exported at once.
    """
    principal = principal_of(request)
    authorise(principal, "read")
    owner = owner_named(principal, request.GET.get("of", ""))
    if request.method == "POST":
        return redirect("workflow", start_memory_export(principal, owner).pk)
    if owner.scope != MemoryEntry.Scope.USER and not is_small(owner):
        return render(request, "pages/memory/export.html", frame(principal))
    return export_response(owner, f"memory-{owner.scope.value}-{str(owner.owner_id)[-12:]}.zip")


@require_http_methods(["GET", "HEAD", "POST"])
def memory_import(request: HttpRequest) -> HttpResponse:
    """Import every document of an archive, or none."""
    principal = principal_of(request)
    agents = display.agents_of(authorise(principal, "run"))
    given = (request.POST, request.FILES) if request.method == "POST" else ()
    form = display.ImportForm(*given, agents=agents)
    imported = _submit(form, "file", lambda: _import(principal, **form.cleaned_data))
    if imported is None:
        return _form_page(request, "pages/memory/import.html", form)
    if isinstance(imported, Workflow):
        return redirect("workflow", imported.pk)
    owner, done = imported
    summary = f"{done.created} created, {done.changed} changed, {done.unchanged} unchanged."
    messages.success(request, summary)
    return redirect(f"{reverse('memory')}?in={owner.owner_id}")


def _import(
    principal: Principal, *, owner: str, file: Any, overwrite: bool
) -> tuple[Owner, Imported] | Workflow:
    """Import a small zip, or start the workflow that imports a larger one."""
    chosen = owner_named(principal, owner)
    if file.size > MOST_BYTES:
        raise Invalid(f"The file is larger than {MOST_BYTES // 1_000_000} MB.")
    if not is_small_archive(file):
        return start_memory_import(principal, chosen, file, overwrite=overwrite)
    return chosen, import_file(chosen, file, by=principal.user_id, overwrite=overwrite)
