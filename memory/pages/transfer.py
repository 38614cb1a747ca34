"""Memory as a zip of Markdown files, taken and brought by people."""

from __future__ import annotations

import tempfile
from uuid import UUID

from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from config.faults import Fault, Forbidden, Invalid, NotFound, Unauthenticated
from memory.api.inputs import reader_for
from memory.api.transfer import IN_MEMORY, MOST_BYTES, ZIP
from memory.archive import Imported, import_archive, write_archive
from memory.owner import Owner, owner_within
from memory.pages.forms import ImportForm
from memory.pages.memory import frame
from memory.pages.tree import agents_of
from memory.unpacking import read_archive
from tenants.access import Principal, authorise
from tenants.authentication import principal_of


def owner_named(principal: Principal, text: str) -> Owner:
    """Whose memory `workspace`, `user` or `agent:ID` means."""
    scope, _, ref = text.partition(":")
    if scope not in ("workspace", "user", "agent") or (scope == "agent") != bool(ref):
        raise NotFound
    return owner_within(reader_for(principal, agent=ref or None, session=None), scope)


@require_safe
def memory_export(request: HttpRequest) -> FileResponse:
    """One owner's documents, to be edited with any tool."""
    principal = principal_of(request)
    authorise(principal, "read")
    owner = owner_named(principal, request.GET.get("of", ""))
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - the answer closes it
    write_archive(owner, file)
    file.seek(0)
    name = f"memory-{owner.scope.value}-{str(owner.owner_id)[-12:]}.zip"
    return FileResponse(file, as_attachment=True, filename=name, content_type=ZIP)


@require_http_methods(["GET", "HEAD", "POST"])
def memory_import(request: HttpRequest) -> HttpResponse:
    """Write every document of an archive, or none."""
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
            messages.success(request, _said(done))
            return redirect(f"{reverse('memory')}?in={owner}")
    context = {**frame(principal), "form": form}
    status = 400 if form.errors else 200
    return render(request, "pages/memory/import.html", context, status=status)


def _import(principal: Principal, form: ImportForm) -> tuple[UUID, Imported]:
    owner = owner_named(principal, form.cleaned_data["owner"])
    file = form.cleaned_data["file"]
    if file.size > MOST_BYTES:
        raise Invalid(f"The file has more than {MOST_BYTES // 1_000_000} MB.")
    by = principal.user_id
    done = import_archive(
        owner, read_archive(file), by=by, overwrite=form.cleaned_data["overwrite"]
    )
    return owner.owner_id, done


def _said(done: Imported) -> str:
    return f"{done.created} new, {done.changed} changed, {done.unchanged} as they were."
