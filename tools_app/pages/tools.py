"""The pages of custom tools, which a client outside runs."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.models import Agent
from core.exceptions import NotFound
from core.validation import submit_form
from tenants.access import authorise
from tenants.authentication import principal_of
from tools_app.models import CustomTool, Skill
from tools_app.schemas import LARGEST
from tools_app.skills import LONGEST_BODY, SKILL_NAME_PATTERN, change_skill, create_skill
from tools_app.workspace_tools import (
    LONGEST_WAIT,
    TOOL_NAME_PATTERN,
    change_custom_tool,
    create_custom_tool,
)

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
        TOOL_NAME_PATTERN,
        label="Name",
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Lowercase letters, digits and _, as in look_up_order.",
        error_messages={"invalid": "Use lowercase letters, digits and _, and begin with a letter."},
    )
    description = forms.CharField(
        label="Description",
        max_length=4_000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="What the tool does and when to use it. The model reads this.",
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
            ("always_allow", "Send it without asking, unless a policy says otherwise"),
        ],
    )
    timeout_seconds = forms.IntegerField(
        label="Wait for the result (seconds)", min_value=1, max_value=LONGEST_WAIT, initial=300
    )

    def clean_input_schema(self) -> dict[str, Any]:
        try:
            schema = json.loads(self.cleaned_data["input_schema"])
        except json.JSONDecodeError as error:
            raise forms.ValidationError(
                f"This is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
            ) from None
        except RecursionError:
            raise forms.ValidationError("The schema is nested too deeply.") from None
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
    made = submit_form(
        form,
        lambda: create_custom_tool(
            workspace_id=workspace_id, fields=form.cleaned_data, created_by=principal.user
        ),
    )
    if made is None:
        return form_page(request, form)
    messages.success(request, f"{made.name} was created. Agents can use it from their next run.")
    return redirect("custom_tools")


@require_http_methods(["GET", "HEAD", "POST"])
def custom_tool_edit(request: HttpRequest, tool_id: UUID) -> HttpResponse:
    tool = get_tool_or_404(request, tool_id)
    current = {name: getattr(tool, name) for name in CustomToolForm.base_fields}
    current["input_schema"] = json.dumps(tool.input_schema, indent=2, ensure_ascii=False)
    form = CustomToolForm(request.POST or None, initial=current)
    if not submit_form(form, lambda: change_custom_tool(tool, form.cleaned_data, replace=True)):
        return form_page(request, form, tool)
    messages.success(request, f"{tool.name} was saved. Pending calls keep waiting.")
    return redirect("custom_tools")


def form_page(
    request: HttpRequest, form: CustomToolForm, tool: CustomTool | None = None
) -> HttpResponse:
    context = {"form": form, "tool": tool}
    status = 400 if form.errors else 200
    return render(request, "pages/custom_tools/edit.html", context, status=status)


@require_POST
def custom_tool_delete(request: HttpRequest, tool_id: UUID) -> HttpResponse:
    tool = get_tool_or_404(request, tool_id)
    tool.delete()
    messages.success(request, f"{tool.name} was deleted. Pending calls can still be answered.")
    return redirect("custom_tools")


def get_tool_or_404(request: HttpRequest, tool_id: UUID) -> CustomTool:
    workspace_id = authorise(principal_of(request), "build")
    tool = CustomTool.objects.for_workspace(workspace_id).filter(pk=tool_id).first()
    if tool is None:
        raise NotFound
    return tool


class SkillForm(forms.Form):
    name = forms.RegexField(
        SKILL_NAME_PATTERN,
        label="Name",
        max_length=60,
        help_text="Lowercase letters, digits and -, as in meeting-notes.",
        error_messages={"invalid": "Use lowercase letters, digits and -, and begin with a letter."},
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    description = forms.CharField(
        label="Description",
        max_length=300,
        help_text="One line that says when to use it. Agents see it in every prompt.",
    )
    body = forms.CharField(
        label="Text",
        max_length=LONGEST_BODY,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 18, "spellcheck": "true"}),
        help_text="Markdown. Agents load it when they need it.",
    )
    agents = forms.MultipleChoiceField(
        label="For agents",
        required=False,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "checkbox checkbox-sm"}),
        help_text="Select none to give it to every agent of the workspace.",
    )
    enabled = forms.BooleanField(label="Available to agents", required=False, initial=True)

    def __init__(self, workspace_id: UUID, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        # An archived agent stays a choice where it is selected; saving would deselect it otherwise.
        shown = Q(archived_at=None) | Q(pk__in=self.initial.get("agents", []))
        rows = Agent.objects.for_workspace(workspace_id).known().filter(shown)
        named = rows.order_by("current__name").values_list("pk", "current__name")
        self.fields["agents"].choices = [  # type: ignore[attr-defined]
            (str(pk), name or f"agent {pk}") for pk, name in named
        ]


@require_safe
def skills(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    rows = list(
        Skill.objects.for_workspace(workspace_id).defer("body").select_related("created_by")
    )
    context = {"skills": rows, "may_build": principal.may("build")}
    return render(request, "pages/skills/skills.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def skill_new(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "build")
    form = SkillForm(workspace_id, request.POST or None)
    made = submit_form(
        form,
        lambda: create_skill(
            workspace_id=workspace_id, fields=form.cleaned_data, created_by=principal.user
        ),
    )
    if made is None:
        return edit_page(request, form)
    messages.success(request, f"{made.name} was created. Agents can load it from now on.")
    return redirect("skills")


@require_http_methods(["GET", "HEAD", "POST"])
def skill_edit(request: HttpRequest, skill_id: UUID) -> HttpResponse:
    skill = get_skill_or_404(request, skill_id)
    current: dict[str, Any] = {name: getattr(skill, name) for name in SkillForm.base_fields}
    current["agents"] = [str(one) for one in skill.agents]
    form = SkillForm(skill.workspace_id, request.POST or None, initial=current)
    changed = submit_form(form, lambda: change_skill(skill, form.cleaned_data))
    if changed is None:
        return edit_page(request, form, skill)
    messages.success(request, f"{changed.name} was saved.")
    return redirect("skills")


def edit_page(request: HttpRequest, form: SkillForm, skill: Skill | None = None) -> HttpResponse:
    context = {"form": form, "skill": skill}
    return render(request, "pages/skills/edit.html", context, status=400 if form.errors else 200)


@require_POST
def skill_delete(request: HttpRequest, skill_id: UUID) -> HttpResponse:
    skill = get_skill_or_404(request, skill_id)
    skill.delete()
    messages.success(request, f"{skill.name} was deleted.")
    return redirect("skills")


def get_skill_or_404(request: HttpRequest, skill_id: UUID) -> Skill:
    workspace_id = authorise(principal_of(request), "build")
    skill = Skill.objects.for_workspace(workspace_id).filter(pk=skill_id).first()
    if skill is None:
        raise NotFound
    return skill
