"""The form by which a person edits the draft of an agent exactly."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms

from agents.drafts import Drafted
from agents.limits import Limits
from agents.models import Environment
from agents.models_catalog import known_models
from agents.providers.registry import PROVIDERS

LIMITS = ("max_model_calls", "max_tool_calls", "max_seconds", "max_tokens_total")
PLAIN = ("name", "description", "system_prompt", "provider", "model", "temperature", "max_tokens")


class BuildForm(forms.Form):
    """The fields of a definition. What is wrong with them is said by the draft itself."""

    revision = forms.IntegerField(widget=forms.HiddenInput)
    name = forms.CharField(max_length=80)
    description = forms.CharField(
        required=False,
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What it is for. A line that begins with Try: is offered as a first message.",
    )
    system_prompt = forms.CharField(
        required=False,
        label="Instructions",
        widget=forms.Textarea(attrs={"rows": 10}),
        help_text="Who it is, how it works, how it answers.",
    )
    provider = forms.ChoiceField(choices=[(name, one.label) for name, one in PROVIDERS.items()])
    model = forms.CharField(
        required=False,
        max_length=120,
        widget=forms.TextInput(attrs={"list": "models", "autocomplete": "off"}),
    )
    temperature = forms.FloatField(required=False, min_value=0, max_value=2)
    max_tokens = forms.IntegerField(
        required=False, min_value=1, max_value=10_000_000, label="Longest answer (tokens)"
    )
    environment = forms.ChoiceField(required=False)

    def __init__(self, workspace_id: UUID, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        rows = Environment.objects.for_workspace(workspace_id).order_by("name")
        self.fields["environment"].choices = [  # type: ignore[attr-defined]
            ("", "The workspace's default"),
            *((str(pk), name) for pk, name in rows.values_list("pk", "name")),
        ]
        for name in LIMITS:
            bound = Limits.model_fields[name]
            label = name.removeprefix("max_").replace("_", " ").replace("tokens total", "tokens")
            self.fields[name] = forms.IntegerField(
                min_value=0,
                max_value=1_000_000_000,
                label=f"Most {label}",
                help_text=bound.description or "",
            )
        for name, field in self.fields.items():
            field.widget.attrs["data-part"] = "limits" if name in LIMITS else name

    def changes(self, drafted: Drafted) -> dict[str, Any]:
        """What differs from the draft."""
        given, now = self.cleaned_data, drafted.fields
        typed: dict[str, Any] = {name: given[name] for name in PLAIN}
        for name in ("description", "system_prompt"):
            # A browser sends a line's end as two characters.
            typed[name] = typed[name].replace("\r\n", "\n")
        typed["environment"] = given["environment"] or None
        typed["limits"] = {**now["limits"], **{name: given[name] for name in LIMITS}}
        return {name: value for name, value in typed.items() if value != now[name]}


def form_of(drafted: Drafted) -> BuildForm:
    fields = drafted.fields
    initial = {**fields, **fields["limits"], "revision": drafted.row.revision}
    return BuildForm(drafted.agent.workspace_id, initial=initial)


def model_names() -> list[str]:
    return sorted({one.name for one in known_models()})
