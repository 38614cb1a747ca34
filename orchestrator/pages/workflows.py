"""The list of workflows, and the page that starts one: choose it, then fill in a form of its params."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from core.exceptions import Conflict, Invalid
from core.ids import uuid7
from orchestrator.engine import definition
from orchestrator.engine.lifecycle import start_as
from orchestrator.models import Workflow, WorkflowQuerySet
from orchestrator.pages.labels import STATUSES, subject_params, summary_of
from orchestrator.pages.triggers import list_triggers
from sessions_app.pages.filters import Chip
from tenants.access import authorise
from tenants.authentication import principal_of

PAGE_SIZE = 50


@dataclass(frozen=True, kw_only=True)
class WorkflowFilter:
    """The filter in the URL of the list."""

    status: str = ""
    name: str = ""
    page: int = 1

    @classmethod
    def in_request(cls, request: HttpRequest) -> WorkflowFilter:
        status, page = request.GET.get("status", ""), request.GET.get("page", "1")
        return cls(
            status=status if status in STATUSES else "",
            name=request.GET.get("name", "").replace("\0", "")[:100],
            page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 6 else 1,
        )

    def url(self, **changed: object) -> str:
        """Return the URL of the list with some values changed. It starts at the first page."""
        values = {"status": self.status, "name": self.name, "page": 1, **changed}
        query = {name: value for name, value in values.items() if value and value != 1}
        return f"?{urlencode(query)}"


@dataclass(frozen=True, kw_only=True)
class WorkflowRow:
    """One workflow in the table, and on the home page."""

    workflow: Workflow
    subject: str
    lamp: str
    status: str
    duration: str
    percent: float | None
    message: str


def row_of(workflow: Workflow) -> WorkflowRow:
    progress = {} if workflow.is_over else workflow.progress or {}
    message = progress.get("message", "")
    if workflow.error:  # the output of a command that failed is on the workflow's own page
        message = workflow.error.get("message", "").partition("\n")[0]
    summary = summary_of(workflow, workflow.subject_params)  # type: ignore[attr-defined]
    return WorkflowRow(**summary, percent=progress.get("percent"), message=message)


@require_safe
def workflows(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    filters = WorkflowFilter.in_request(request)
    start = max(0, filters.page - 1) * PAGE_SIZE
    found = filtered_workflows(workspace_id, filters)[start : start + PAGE_SIZE + 1]
    rows = [row_of(workflow) for workflow in found]
    context = {
        "rows": rows[:PAGE_SIZE],
        "statuses": status_chips(filters),
        "names": name_chips(filters),
        "definitions": definition.definitions(),
        "is_filtered": bool(filters.status or filters.name),
        "older": filters.url(page=filters.page + 1) if len(rows) > PAGE_SIZE else "",
        "newer": filters.url(page=filters.page - 1) if filters.page > 1 else "",
        "may_run": principal.may("run"),
        "may_build": principal.may("build"),
        "triggers": list_triggers(workspace_id),
    }
    return render(request, "pages/workflows/workflows.html", context)


def filtered_workflows(workspace_id: UUID, filters: WorkflowFilter) -> WorkflowQuerySet:
    rows = Workflow.objects.for_workspace(workspace_id)
    chosen = {"status": filters.status, "name": filters.name}
    rows = rows.filter(**{field: value for field, value in chosen.items() if value})
    # Results and params may be large, and are not needed here.
    rows = rows.select_related("agent__current").annotate(subject_params=subject_params())
    return rows.defer("result", "params").order_by("-created_at", "-pk")


def status_chips(filters: WorkflowFilter) -> list[Chip]:
    """Return a chip per status. A chip that is on clears its filter."""
    return [
        Chip(
            name=label,
            lamp=lamp,
            is_on=filters.status == value,
            url=filters.url(status="" if filters.status == value else value),
        )
        for value, (lamp, label) in STATUSES.items()
    ]


def name_chips(filters: WorkflowFilter) -> list[Chip]:
    return [
        Chip(
            name=made.name,
            is_on=filters.name == made.name,
            url=filters.url(name="" if filters.name == made.name else made.name),
        )
        for made in definition.definitions()
    ]


# ── Starting ─────────────────────────────────────────────────────────────────────────────────────

LONG_TEXT = 200  #: Longer texts get a multi-line field.


class ListField(forms.Field):
    """A list of strings, one per line."""

    widget = forms.Textarea(attrs={"rows": 3})

    def to_python(self, value: Any) -> list[str]:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value


def params_form(made: type[definition.Workflow], data: Any = None) -> forms.Form:
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
            name: field_for(param, is_required=name in required)
            for name, param in schema.get("properties", {}).items()
        }
    return type("ParamsForm", (forms.Form,), fields)(data)


def field_for(param: dict[str, Any], *, is_required: bool) -> forms.Field:
    """Return the form field for a param, given as JSON Schema."""
    options: dict[str, Any] = {
        "label": param.get("title"),
        "required": is_required,
        "initial": param.get("default"),
        "help_text": param.get("description", ""),
    }
    match param.get("type"):
        case "string":
            length = param.get("maxLength", LONG_TEXT + 1)
            is_long = length > LONG_TEXT and param.get("format") != "uuid"
            widget = forms.Textarea(attrs={"rows": 3}) if is_long else forms.TextInput()
            return forms.CharField(widget=widget, strip=True, **options)
        case "integer":
            return forms.IntegerField(**options)
        case "number":
            return forms.FloatField(**options)
        case "boolean":
            return forms.BooleanField(**{**options, "required": False})
        case "array" if param.get("items", {}).get("type") == "string":
            return ListField(**options)
        case _:
            lines = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
            return forms.JSONField(**options, widget=lines)


def params_of(made: type[definition.Workflow], form: forms.Form) -> dict[str, Any]:
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
        definitions = definition.definitions()
        return render(request, "pages/workflows/choose.html", {"definitions": definitions})
    made = definition.latest_version(name)
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
    context = {"definition": made, "form": form, "error": error, "once": uuid7()}
    return render(request, "pages/workflows/new.html", context)
