"""The pages of triggers. A webhook's secret is shown once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.models import Agent
from core.db import delete_row
from core.exceptions import Conflict, Fault, Invalid, InvalidFields, NotFound
from orchestrator import triggers
from orchestrator.canvas.plan import CANVAS
from orchestrator.engine.definition import definitions
from orchestrator.models import TriggerFiring, WorkflowTrigger
from orchestrator.pages.labels import as_text
from sessions_app.pages.schedules import zones
from sessions_app.schedules import timing
from tenants.access import Verb, authorise
from tenants.authentication import principal_of

KINDS = [
    ("webhook", "Webhook", "Another system calls a URL, with a secret."),
    ("schedule", "Schedule", "At times given by a cron expression."),
]
AGENT, FLOW = "agent:", "workflow:"


class TriggerForm(forms.Form):
    """The form of a new trigger: a time or a webhook, and what it starts."""

    KINDS = KINDS

    name = forms.CharField(max_length=80)
    starts = forms.ChoiceField(label="Starts")
    kind = forms.ChoiceField(
        choices=[(value, title) for value, title, _ in KINDS], initial="webhook"
    )
    cron = forms.CharField(
        required=False,
        max_length=120,
        label="Cron expression",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Minute, hour, day, month, weekday. 0 9 * * 1-5 means nine o'clock on workdays.",
    )
    timezone = forms.ChoiceField(
        label="Time zone", initial="UTC", widget=forms.Select(attrs={"data-own-zone": ""})
    )
    verify = forms.ChoiceField(
        label="Verification",
        choices=[
            ("signature", "The caller signs each message"),
            ("token", "The caller sends the secret"),
        ],
        help_text="Choose the second only for systems that cannot sign.",
    )
    params = forms.JSONField(
        required=False,
        initial=dict,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        label="Input",
        help_text="JSON. {{input.name}} stands for a value of the message. {} passes a canvas the whole message.",
        error_messages={"invalid": "This is not JSON. Use {} for no input."},
    )

    def __init__(self, workspace_id: UUID, data: Any = None) -> None:
        super().__init__(data)
        self.fields["starts"].choices = targets(workspace_id)  # type: ignore[attr-defined]
        self.fields["timezone"].choices = zones()  # type: ignore[attr-defined]

    def clean_params(self) -> dict[str, Any]:
        given = self.cleaned_data["params"] or {}
        if not isinstance(given, dict):
            raise forms.ValidationError(
                'The input must be a JSON object, like {"topic": "Trains"}.'
            )
        return given

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("kind") == "schedule" and "cron" in found and "timezone" in found:
            try:
                timing.check_cron(found["cron"], found["timezone"])
            except Invalid as fault:
                self.add_error(
                    "cron", fault.detail if found["cron"] else "Enter a cron expression."
                )
        return found

    def add_fault(self, fault: Fault) -> None:
        """Show an error of the service at the field it belongs to."""
        self.add_error("params" if isinstance(fault, InvalidFields) else None, fault.detail)

    def trigger_fields(self) -> dict[str, object]:
        fields = dict(self.cleaned_data)
        kind, _, ref = fields.pop("starts").partition(":")
        if fields["kind"] == "webhook":
            fields["cron"] = ""
        agent_id, workflow = (ref, CANVAS) if kind == "agent" else (None, ref)
        return {**fields, "agent_id": agent_id, "workflow": workflow}


def targets(workspace_id: UUID) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return what a trigger can start: workflows, and published canvases."""
    flows = [(f"{FLOW}{made.name}", made.name) for made in definitions() if made.name != CANVAS]
    rows = Agent.objects.for_workspace(workspace_id).active()
    rows = rows.filter(canvas__published__isnull=False)
    named = [
        (f"{AGENT}{pk}", name) for pk, name in rows.values_list("pk", "current__name").distinct()
    ]
    return [("Workflows", flows), *([("Published canvases", named)] if named else [])]


MAX_TRIGGERS, MAX_FIRINGS = 200, 50


def list_triggers(workspace_id: UUID) -> list[WorkflowTrigger]:
    rows = WorkflowTrigger.objects.for_workspace(workspace_id)
    return list(rows.select_related("agent__current").defer("secret", "params")[:MAX_TRIGGERS])


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def trigger_new(request: HttpRequest) -> HttpResponse:
    """Create a trigger. Only the answer to the form shows a webhook's secret."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "build")
    form = TriggerForm(workspace_id, request.POST if request.method == "POST" else None)
    form.initial["starts"] = f"{AGENT}{request.GET.get('agent', '')}"
    if request.method == "POST" and form.is_valid():
        try:
            made = triggers.create_trigger(
                workspace_id=workspace_id, created_by=principal.user, **form.trigger_fields()
            )
        except (Invalid, Conflict, NotFound) as fault:
            form.add_fault(fault)
        else:
            if made.secret:
                return _secret_page(request, made)
            messages.success(request, f"{made.trigger.name} was created.")
            return redirect("trigger", made.trigger.pk)
    return render(request, "pages/workflows/trigger_new.html", {"form": form})


def _secret_page(request: HttpRequest, made: triggers.SecretTrigger) -> HttpResponse:
    address = request.build_absolute_uri(made.trigger.path)
    context = {"trigger": made.trigger, "secret": made.secret, "address": address}
    return render(request, "pages/workflows/trigger_secret.html", context)


@require_safe
def trigger(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    """Show one trigger and its newest firings."""
    found = _find(request, trigger_id, "read")
    context = {
        "trigger": found,
        "address": request.build_absolute_uri(found.path) if found.path else "",
        "params": as_text(found.params) if found.params else "",
        "firings": list(TriggerFiring.objects.filter(trigger=found)[:MAX_FIRINGS]),
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
    timing.pause(_find(request, trigger_id))
    return redirect("trigger", trigger_id)


@require_POST
def trigger_resume(request: HttpRequest, trigger_id: UUID) -> HttpResponse:
    timing.resume(_find(request, trigger_id))
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
    delete_row(trigger)
    messages.success(request, f"{trigger.name} was removed.")
    return redirect("workflows")
