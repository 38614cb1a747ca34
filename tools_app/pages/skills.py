"""Skills: which there are, and an editor for each."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.models import Agent
from agents.pages.carrying_out import carry_out
from config.faults import NotFound
from tenants.access import authorise
from tenants.authentication import principal_of
from tools_app.models import Skill
from tools_app.skills import LONGEST_BODY, NAME_PATTERN, change_skill, create_skill


class SkillForm(forms.Form):
    name = forms.RegexField(
        NAME_PATTERN,
        label="Name",
        max_length=60,
        help_text="Small letters, digits and -, as in meeting-notes.",
        error_messages={"invalid": "Small letters, digits and -, a letter first."},
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
        help_text="Markdown. An agent loads it when it needs it.",
    )
    agents = forms.MultipleChoiceField(
        label="For agents",
        required=False,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "checkbox checkbox-sm"}),
        help_text="None ticked: every agent of the workspace has it.",
    )
    enabled = forms.BooleanField(label="Agents know of it", required=False, initial=True)

    def __init__(self, workspace_id: UUID, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        # One that was put away stays tickable where it is ticked: else saving would untick it.
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
    made = carry_out(
        form,
        lambda: create_skill(
            workspace_id=workspace_id, fields=form.cleaned_data, created_by=principal.user
        ),
    )
    if made is None:
        return edit_page(request, form)
    messages.success(request, f"{made.name} is written. Agents know of it from now on.")
    return redirect("skills")


@require_http_methods(["GET", "HEAD", "POST"])
def skill_edit(request: HttpRequest, skill_id: UUID) -> HttpResponse:
    skill = found(request, skill_id)
    current: dict[str, Any] = {name: getattr(skill, name) for name in SkillForm.base_fields}
    current["agents"] = [str(one) for one in skill.agents]
    form = SkillForm(skill.workspace_id, request.POST or None, initial=current)
    changed = carry_out(form, lambda: change_skill(skill, form.cleaned_data))
    if changed is None:
        return edit_page(request, form, skill)
    messages.success(request, f"{changed.name} is saved.")
    return redirect("skills")


def edit_page(request: HttpRequest, form: SkillForm, skill: Skill | None = None) -> HttpResponse:
    context = {"form": form, "skill": skill}
    return render(request, "pages/skills/edit.html", context, status=400 if form.errors else 200)


@require_POST
def skill_delete(request: HttpRequest, skill_id: UUID) -> HttpResponse:
    skill = found(request, skill_id)
    skill.delete()
    messages.success(request, f"{skill.name} is deleted.")
    return redirect("skills")


def found(request: HttpRequest, skill_id: UUID) -> Skill:
    workspace_id = authorise(principal_of(request), "build")
    skill = Skill.objects.for_workspace(workspace_id).filter(pk=skill_id).first()
    if skill is None:
        raise NotFound
    return skill
