"""Triggers on the pages of workflows: listed, set up, paused, removed; a secret is shown once."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from agents.models import Agent
from config.faults import Conflict, Fault, Invalid, NotFound
from orchestrator import triggers
from orchestrator.canvas.walk import CANVAS
from orchestrator.engine.definition import definitions
from orchestrator.models import WorkflowTrigger
from orchestrator.triggers import SecretTrigger
from tenants.access import authorise
from tenants.authentication import principal_of

SHOWN = 200


def listed(workspace_id: UUID) -> list[WorkflowTrigger]:
    rows = WorkflowTrigger.objects.for_workspace(workspace_id)
    return list(rows.select_related("agent__current").defer("secret", "params")[:SHOWN])


class TriggerForm(forms.Form):
    """A time or a webhook, and what it starts."""

    name = forms.CharField(max_length=80)
    agent = forms.ChoiceField(
        label="Start the canvas of", required=False, help_text="What is published of it."
    )
    workflow = forms.ChoiceField(label="or the workflow", required=False)
    kind = forms.ChoiceField(
        label="When",
        choices=[("webhook", "Another system calls"), ("schedule", "At certain times")],
    )
    cron = forms.CharField(
        required=False,
        max_length=120,
        label="Times, as cron",
        help_text="Minute, hour, day, month, weekday: 0 9 * * 1-5 is nine o'clock on workdays.",
    )
    timezone = forms.CharField(initial="UTC", max_length=64, label="Time zone")
    verify = forms.ChoiceField(
        label="A caller",
        choices=[("signature", "signs each message"), ("token", "shows the secret itself")],
        help_text="Choose the second only for systems that cannot sign.",
    )
    params = forms.JSONField(
        required=False,
        initial=dict,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="Input",
        help_text="JSON. {{input.name}} stands for what the caller sent; {} passes all of it on.",
    )

    def __init__(self, workspace_id: UUID, data: object = None) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        rows = Agent.objects.for_workspace(workspace_id).filter(archived_at=None)
        named = [(str(pk), name) for pk, name in rows.values_list("pk", "current__name")]
        others = [(made.name, made.name) for made in definitions() if made.name != CANVAS]
        self.fields["agent"].choices = [("", "—"), *named]  # type: ignore[attr-defined]
        self.fields["workflow"].choices = [("", "—"), *others]  # type: ignore[attr-defined]

    def wanted(self) -> dict[str, object]:
        asked = dict(self.cleaned_data)
        agent, workflow = asked.pop("agent"), asked.pop("workflow")
        if bool(agent) == bool(workflow):
            raise Invalid("Choose either an agent's canvas or a workflow.")
        asked["params"] = asked["params"] or {}
        if not isinstance(asked["params"], dict):
            raise Invalid("The input is a JSON object.")
        if asked["kind"] == "webhook":
            asked["cron"] = ""
        return {**asked, "agent_id": agent or None, "workflow": workflow or CANVAS}


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
            form.add_error(None, fault.detail)
        else:
            if made.secret:
                return _secret_page(request, made)
            messages.success(request, f"{made.trigger.name} is set up.")
            return redirect("workflows")
    return render(request, "pages/workflows/trigger_new.html", {"form": form})


def _secret_page(request: HttpRequest, made: SecretTrigger) -> HttpResponse:
    address = request.build_absolute_uri(made.trigger.path)
    context = {"trigger": made.trigger, "secret": made.secret, "address": address}
    return render(request, "pages/workflows/trigger_secret.html", context)


def _find(request: HttpRequest, trigger_id: UUID) -> WorkflowTrigger:
    workspace_id = authorise(principal_of(request), "build")
    found = WorkflowTrigger.objects.for_workspace(workspace_id).filter(pk=trigger_id).first()
    if found is None:
        raise NotFound
    return found


@require_POST
def trigger_pause(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    triggers.pause(_find(request, trigger_id))
    return redirect("workflows")


@require_POST
def trigger_resume(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    triggers.resume(_find(request, trigger_id))
    return redirect("workflows")


@never_cache
@require_POST
def trigger_rotate(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    trigger = _find(request, trigger_id)
    try:
        return _secret_page(request, triggers.rotate_secret(trigger))
    except Fault as fault:
        messages.error(request, fault.detail)
        return redirect("workflows")


@require_POST
def trigger_remove(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    trigger = _find(request, trigger_id)
    trigger.delete()
    messages.success(request, f"{trigger.name} is removed.")
    return redirect("workflows")
