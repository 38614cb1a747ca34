"""Custom tools: described here with a JSON Schema, run by a client outside."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.pages.carrying_out import carry_out
from config.faults import NotFound
from tenants.access import authorise
from tenants.authentication import principal_of
from tools_app.client_schema import LARGEST
from tools_app.custom import (
    LONGEST_WAIT,
    NAME_PATTERN,
    change_custom_tool,
    create_custom_tool,
)
from tools_app.models import CustomTool

EXAMPLE = """{
  "type": "object",
  "properties": {
    "order": {"type": "string", "description": "The number of the order."}
  },
  "required": ["order"]
}"""
PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class CustomToolForm(forms.Form):
    name = forms.RegexField(
        NAME_PATTERN,
        label="Name",
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Small letters, digits and _, as in look_up_order.",
        error_messages={"invalid": "Small letters, digits and _, a letter first."},
    )
    description = forms.CharField(
        label="Description",
        max_length=4_000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="What it does and when to use it, for the model.",
    )
    input_schema = forms.CharField(
        label="Arguments",
        initial=EXAMPLE,
        max_length=LARGEST * 2,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 10}),
        help_text="A JSON Schema of an object. Calls that do not fit it never reach your program.",
    )
    permission = forms.ChoiceField(
        label="When an agent calls it",
        choices=[
            ("always_ask", "Ask a person before each call"),
            ("always_allow", "Send it out without asking, unless a policy says otherwise"),
        ],
    )
    timeout_seconds = forms.IntegerField(
        label="Wait for its result (seconds)", min_value=1, max_value=LONGEST_WAIT, initial=300
    )

    def clean_input_schema(self) -> dict[str, Any]:
        try:
            schema = json.loads(self.cleaned_data["input_schema"])
        except json.JSONDecodeError as error:
            raise forms.ValidationError(
                f"This is not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
            ) from None
        except RecursionError:
            raise forms.ValidationError("This is nested too deeply.") from None
        if not isinstance(schema, dict):
            raise forms.ValidationError('A schema is an object: {"type": "object", …}.')
        return schema


@require_safe
def custom_tools(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    context = {
        "tools": CustomTool.objects.for_workspace(workspace_id).select_related("created_by"),
        "may_build": principal.may("build"),
    }
    return render(request, "pages/custom_tools/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def custom_tool_new(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "build")
    form = CustomToolForm(request.POST or None)
    made = carry_out(
        form,
        lambda: create_custom_tool(
            workspace_id=workspace_id, fields=form.cleaned_data, created_by=principal.user
        ),
    )
    if made is None:
        return form_page(request, form)
    messages.success(request, f"{made.name} is defined. Agents have it in their next run.")
    return redirect("custom_tools")


@require_http_methods(["GET", "HEAD", "POST"])
def custom_tool_edit(request: HttpRequest, tool_id: UUID) -> HttpResponse:
    tool = found(request, tool_id)
    current = {name: getattr(tool, name) for name in CustomToolForm.base_fields}
    current["input_schema"] = json.dumps(tool.input_schema, indent=2, ensure_ascii=False)
    form = CustomToolForm(request.POST or None, initial=current)
    if not carry_out(form, lambda: change_custom_tool(tool, form.cleaned_data, replace=True)):
        return form_page(request, form, tool)
    messages.success(request, "It is saved. Calls that are out already keep waiting.")
    return redirect("custom_tools")


def form_page(
    request: HttpRequest, form: CustomToolForm, tool: CustomTool | None = None
) -> HttpResponse:
    context = {"form": form, "tool": tool}
    status = 400 if form.errors else 200
    return render(request, "pages/custom_tools/edit.html", context, status=status)


@require_POST
def custom_tool_delete(request: HttpRequest, tool_id: UUID) -> HttpResponse:
    tool = found(request, tool_id)
    tool.delete()
    messages.success(request, f"{tool.name} is gone. Calls that are out can still be answered.")
    return redirect("custom_tools")


def found(request: HttpRequest, tool_id: UUID) -> CustomTool:
    workspace_id = authorise(principal_of(request), "build")
    tool = CustomTool.objects.for_workspace(workspace_id).filter(pk=tool_id).first()
    if tool is None:
        raise NotFound
    return tool
