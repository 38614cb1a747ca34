"""The form of a trigger: what it starts, and when, in the words of people."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms

from agents.models import Agent
from config.faults import Fault, Invalid, InvalidFields
from orchestrator.canvas.running import CANVAS
from orchestrator.engine.definition import definitions
from sessions_app.pages.schedule_form import zones
from sessions_app.timing import check_cron

KINDS = [
    ("webhook", "Another system calls", "It gets an address and a secret."),
    ("schedule", "At certain times", "By the calendar, as cron writes it."),
]
AGENT, FLOW = "agent:", "workflow:"


class TriggerForm(forms.Form):
    """A time or a webhook, and what it starts."""

    KINDS = KINDS

    name = forms.CharField(max_length=80)
    starts = forms.ChoiceField(label="Starts")
    kind = forms.ChoiceField(
        choices=[(value, title) for value, title, _ in KINDS], initial="webhook"
    )
    cron = forms.CharField(
        required=False,
        max_length=120,
        label="Times, as cron",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Minute, hour, day, month, weekday: 0 9 * * 1-5 is nine o'clock on workdays.",
    )
    timezone = forms.ChoiceField(
        label="Time zone", initial="UTC", widget=forms.Select(attrs={"data-own-zone": ""})
    )
    verify = forms.ChoiceField(
        label="A caller",
        choices=[("signature", "signs each message"), ("token", "shows the secret itself")],
        help_text="Choose the second only for systems that cannot sign.",
    )
    params = forms.JSONField(
        required=False,
        initial=dict,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        label="Input",
        help_text="JSON. {{input.name}} stands for what came in. A canvas gets all of it with {}.",
        error_messages={"invalid": "This is not JSON. Write {} when there is nothing to say."},
    )

    def __init__(self, workspace_id: UUID, data: Any = None) -> None:
        super().__init__(data)
        self.fields["starts"].choices = targets(workspace_id)  # type: ignore[attr-defined]
        self.fields["timezone"].choices = zones()  # type: ignore[attr-defined]

    def clean_params(self) -> dict[str, Any]:
        given = self.cleaned_data["params"] or {}
        if not isinstance(given, dict):
            raise forms.ValidationError('The input is a JSON object, like {"topic": "Trains"}.')
        return given

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("kind") == "schedule" and "cron" in found and "timezone" in found:
            try:
                check_cron(found["cron"], found["timezone"])
            except Invalid as fault:
                self.add_error("cron", fault.detail if found["cron"] else "Say when.")
        return found

    def take(self, fault: Fault) -> None:
        """Show what the engine has against it, where it belongs."""
        self.add_error("params" if isinstance(fault, InvalidFields) else None, fault.detail)

    def wanted(self) -> dict[str, object]:
        asked = dict(self.cleaned_data)
        kind, _, ref = asked.pop("starts").partition(":")
        if asked["kind"] == "webhook":
            asked["cron"] = ""
        agent_id, workflow = (ref, CANVAS) if kind == "agent" else (None, ref)
        return {**asked, "agent_id": agent_id, "workflow": workflow}


def targets(workspace_id: UUID) -> list[tuple[str, list[tuple[str, str]]]]:
    """The workflows, and the canvases that are published; a draft runs nothing."""
    flows = [(f"{FLOW}{made.name}", made.name) for made in definitions() if made.name != CANVAS]
    rows = Agent.objects.for_workspace(workspace_id).active()
    rows = rows.filter(canvas__published__isnull=False)
    named = [
        (f"{AGENT}{pk}", name) for pk, name in rows.values_list("pk", "current__name").distinct()
    ]
    return [("Workflows", flows), *([("Published canvases", named)] if named else [])]
