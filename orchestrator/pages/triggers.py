"""Triggers on the pages of workflows: listed, set up, paused, removed; a secret is shown once."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from config.faults import Conflict, Fault, Invalid, NotFound
from orchestrator import triggers
from orchestrator.models import TriggerFiring, WorkflowTrigger
from orchestrator.pages.trigger_form import TriggerForm
from orchestrator.pages.words import shown
from orchestrator.triggers import SecretTrigger
from tenants.access import Verb, authorise
from tenants.authentication import principal_of
from tenants.rows import remove

SHOWN, FIRINGS = 200, 50


def listed(workspace_id: UUID) -> list[WorkflowTrigger]:
    rows = WorkflowTrigger.objects.for_workspace(workspace_id)
    return list(rows.select_related("agent__current").defer("secret", "params")[:SHOWN])


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def trigger_new(request: HttpRequest) -> HttpResponse:
    """The answer to the form is the only page that shows a webhook's secret."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "build")
    form = TriggerForm(workspace_id, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            made = triggers.create_trigger(
                workspace_id=workspace_id, created_by=principal.user, **form.wanted()
            )
        except (Invalid, Conflict, NotFound) as fault:
            form.take(fault)
        else:
            if made.secret:
                return _secret_page(request, made)
            messages.success(request, f"{made.trigger.name} is set up.")
            return redirect("trigger", made.trigger.pk)
    return render(request, "pages/workflows/trigger_new.html", {"form": form})


def _secret_page(request: HttpRequest, made: SecretTrigger) -> HttpResponse:
    address = request.build_absolute_uri(made.trigger.path)
    context = {"trigger": made.trigger, "secret": made.secret, "address": address}
    return render(request, "pages/workflows/trigger_secret.html", context)


@require_safe
def trigger(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    """One trigger: what it does, and what came of it, the newest first."""
    found = _find(request, trigger_id, "read")
    context = {
        "trigger": found,
        "address": request.build_absolute_uri(found.path) if found.path else "",
        "params": shown(found.params) if found.params else "",
        "firings": list(TriggerFiring.objects.filter(trigger=found)[:FIRINGS]),
        "may_build": principal_of(request).may("build"),
    }
    return render(request, "pages/workflows/trigger.html", context)


def _find(request: HttpRequest, trigger_id: UUID, verb: Verb = "build") -> WorkflowTrigger:
    workspace_id = authorise(principal_of(request), verb)
    rows = WorkflowTrigger.objects.for_workspace(workspace_id)
    found = rows.select_related("agent__current", "created_by").filter(pk=trigger_id).first()
    if found is None:
        raise NotFound
    return found


@require_POST
def trigger_pause(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    triggers.pause(_find(request, trigger_id))
    return redirect("trigger", trigger_id)


@require_POST
def trigger_resume(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    triggers.resume(_find(request, trigger_id))
    return redirect("trigger", trigger_id)


@never_cache
@require_POST
def trigger_rotate(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    trigger = _find(request, trigger_id)
    try:
        return _secret_page(request, triggers.rotate_secret(trigger))
    except Fault as fault:
        messages.error(request, fault.detail)
        return redirect("trigger", trigger_id)


@require_POST
def trigger_remove(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    trigger = _find(request, trigger_id)
    remove(trigger)
    messages.success(request, f"{trigger.name} is removed.")
    return redirect("workflows")
