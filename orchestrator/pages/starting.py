"""Starting a workflow: which, and with what."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from config.faults import Conflict, Invalid
from orchestrator.engine.definition import current, definitions, description_of
from orchestrator.engine.starting import start_as
from orchestrator.pages.forms import params_form, params_of
from tenants.access import authorise
from tenants.authentication import principal_of
from tenants.ids import uuid7


@require_http_methods(["GET", "HEAD", "POST"])
def workflow_new(request: HttpRequest) -> HttpResponse:
    """Choose a workflow, then say what it wants to know. A form that is sent twice starts one."""
    principal = principal_of(request)
    authorise(principal, "run")
    name = request.POST.get("name") or request.GET.get("name") or ""
    if not name:
        offered = [(made, description_of(made)) for made in definitions()]
        return render(request, "pages/workflows/choose.html", {"definitions": offered})
    made = current(name)
    form = params_form(made, request.POST if request.method == "POST" else None)
    error = ""
    if request.method == "POST" and form.is_valid():
        try:
            started, _ = start_as(
                principal, name, params_of(made, form), key=request.POST.get("once") or None
            )
        except (Invalid, Conflict) as fault:
            error = fault.detail
        else:
            return redirect("workflow", started.pk)
    context = {
        "made": made,
        "description": description_of(made),
        "form": form,
        "error": error,
        "once": uuid7(),
    }
    return render(request, "pages/workflows/new.html", context)
