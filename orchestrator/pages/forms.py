"""The form of a workflow's params, made from what its class wants to know."""

from __future__ import annotations

from typing import Any

from django import forms

from orchestrator.engine.definition import Workflow

LONG = 200  #: A text that may be longer is written in several lines.


class ListField(forms.Field):
    """One entry a line."""

    widget = forms.Textarea(attrs={"rows": 3})

    def to_python(self, value: Any) -> list[str]:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value


def params_form(made: type[Workflow], data: Any = None) -> forms.Form:
    """A field for each param that is plain; a class that says nothing gets one field of JSON."""
    if made.params is None:
        fields: dict[str, forms.Field] = {
            "params": forms.JSONField(
                required=False, initial=dict, widget=forms.Textarea(attrs={"rows": 6})
            )
        }
    else:
        schema = made.params.model_json_schema()
        needed = set(schema.get("required", ()))
        fields = {
            name: field_for(facts, is_needed=name in needed)
            for name, facts in schema.get("properties", {}).items()
        }
    return type("ParamsForm", (forms.Form,), fields)(data)


def field_for(facts: dict[str, Any], *, is_needed: bool) -> forms.Field:
    words: dict[str, Any] = {
        "label": facts.get("title"),
        "required": is_needed,
        "initial": facts.get("default"),
        "help_text": facts.get("description", ""),
    }
    match facts.get("type"):
        case "string":
            is_long = facts.get("maxLength", LONG + 1) > LONG and facts.get("format") != "uuid"
            widget = forms.Textarea(attrs={"rows": 3}) if is_long else forms.TextInput()
            return forms.CharField(widget=widget, strip=True, **words)
        case "integer":
            return forms.IntegerField(**words)
        case "number":
            return forms.FloatField(**words)
        case "boolean":
            return forms.BooleanField(**{**words, "required": False})
        case "array" if facts.get("items", {}).get("type") == "string":
            return ListField(**words)
        case _:
            lines = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
            return forms.JSONField(**words, widget=lines)


def params_of(made: type[Workflow], form: forms.Form) -> dict[str, Any]:
    """What was typed. A field that was left empty is left to its default."""
    if made.params is None:
        return form.cleaned_data["params"] or {}
    return {name: value for name, value in form.cleaned_data.items() if value not in ("", None, [])}
