"""Starting a workflow: choose one, then fill in a form made from its params."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from core.exceptions import Conflict, Invalid
from core.ids import uuid7
from orchestrator.engine.definition import Workflow, definitions, description_of, latest_version
from orchestrator.engine.lifecycle import start_as
from tenants.access import authorise
from tenants.authentication import principal_of

LONG_TEXT = 200  #: Longer texts get a multi-line field.


class ListField(forms.Field):
    """A list of strings, one per line."""

    widget = forms.Textarea(attrs={"rows": 3})

    def to_python(self, value: Any) -> list[str]:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value


def params_form(made: type[Workflow], data: Any = None) -> forms.Form:
    """Return a form with a field per param, or one JSON field for a class without a schema."""
    if made.params is None:
        fields: dict[str, forms.Field] = {
            "params": forms.JSONField(
                required=False, initial=dict, widget=forms.Textarea(attrs={"rows": 6})
            )
        }
    else:
        schema = made.params.model_json_schema()
        required = set(schema.get("required", ()))
        fields = {
            name: field_for(schema_field, is_required=name in required)
            for name, schema_field in schema.get("properties", {}).items()
        }
    return type("ParamsForm", (forms.Form,), fields)(data)


def field_for(schema_field: dict[str, Any], *, is_required: bool) -> forms.Field:
    options: dict[str, Any] = {
        "label": schema_field.get("title"),
        "required": is_required,
        "initial": schema_field.get("default"),
        "help_text": schema_field.get("description", ""),
    }
    match schema_field.get("type"):
        case "string":
            is_long = (
                schema_field.get("maxLength", LONG_TEXT + 1) > LONG_TEXT
                and schema_field.get("format") != "uuid"
            )
            widget = forms.Textarea(attrs={"rows": 3}) if is_long else forms.TextInput()
            return forms.CharField(widget=widget, strip=True, **options)
        case "integer":
            return forms.IntegerField(**options)
        case "number":
            return forms.FloatField(**options)
        case "boolean":
            return forms.BooleanField(**{**options, "required": False})
        case "array" if schema_field.get("items", {}).get("type") == "string":
            return ListField(**options)
        case _:
            lines = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
            return forms.JSONField(**options, widget=lines)


def params_of(made: type[Workflow], form: forms.Form) -> dict[str, Any]:
    """Return the submitted params. An empty field is left to its default."""
    if made.params is None:
        return form.cleaned_data["params"] or {}
    return {name: value for name, value in form.cleaned_data.items() if value not in ("", None, [])}


@require_http_methods(["GET", "HEAD", "POST"])
def workflow_new(request: HttpRequest) -> HttpResponse:
    """Choose a workflow, then give its params. Submitting the form twice starts one workflow."""
    principal = principal_of(request)
    authorise(principal, "run")
    name = request.POST.get("name") or request.GET.get("name") or ""
    if not name:
        choices = [(made, description_of(made)) for made in definitions()]
        return render(request, "pages/workflows/choose.html", {"definitions": choices})
    made = latest_version(name)
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
