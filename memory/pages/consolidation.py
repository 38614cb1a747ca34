"""Pages of consolidations: the list, one proposal with its diffs, and the settings of each agent."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.definitions import find_agent
from agents.models import Agent
from core.db import delete_row
from core.exceptions import Conflict, NotFound
from memory import proposals
from memory.consolidation import MAIN_CHARACTERS
from memory.diffs import counted, diff_lines
from memory.models import Consolidation
from memory.pages.browse import frame, uuid_in
from memory.proposals import Shown
from sessions_app.consolidation import request_consolidation
from sessions_app.models import Schedule
from sessions_app.schedules.schedules import change_schedule, create_schedule
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

MOST_LISTED = 50
LAMPS = {
    "reviewing": "is-running",
    "waiting": "is-waiting",
    "applied": "is-done",
    "undone": "",
    "discarded": "",
    "nothing": "is-done",
}
STATES = {
    "reviewing": "Reviewing",
    "waiting": "Waiting for you",
    "applied": "Applied",
    "undone": "Undone",
    "discarded": "Discarded",
    "nothing": "Nothing to change",
}
KINDS = {
    "duplicate": "Duplicate",
    "outdated": "Outdated",
    "merged": "Merged",
    "moved": "Moved",
    "promoted": "Promoted",
    "unused": "Unused",
}
ACTIONS = {
    "write": "Changed",
    "create": "New document",
    "delete": "Deleted",
    "hide": "Hidden from searches",
}
#: When an agent's memory is consolidated, as a cron expression.
TIMES = {
    "": "Only when asked",
    "0 3 * * *": "Every night at 3:00",
    "0 3 * * 0": "Every Sunday at 3:00",
}


class ConsolidationSettings(forms.Form):
    applies_itself = forms.ChoiceField(
        label="Changes",
        choices=[("", "Wait for a person"), ("1", "Are applied without a person")],
        required=False,
    )
    cron = forms.ChoiceField(label="When", choices=list(TIMES.items()), required=False)
    budget = forms.DecimalField(
        label="Budget",
        min_value=0,
        max_digits=8,
        decimal_places=2,
        help_text="The most that the model calls of one consolidation may cost, in US dollars.",
    )


@require_safe
def consolidations(request: HttpRequest) -> HttpResponse:
    """Show the consolidations of the workspace, and the settings of one agent."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    rows = Consolidation.objects.for_workspace(workspace_id).select_related("agent__current")
    chosen = uuid_in(request, "agent")
    if chosen:
        rows = rows.filter(agent=chosen)
    found = rows.annotate(count=Count("changes"))[:MOST_LISTED]
    agent = find_agent(workspace_id, chosen) if chosen else None
    context = frame(principal) | {
        "rows": [(row, STATES[row.status], LAMPS[row.status]) for row in found],
        "agent": agent,
        "form": _settings_form(agent) if agent else None,
        "may_build": principal.may("build"),
        "main_characters": MAIN_CHARACTERS,
    }
    return render(request, "pages/memory/consolidations.html", context)


def _settings_form(agent: Agent) -> ConsolidationSettings:
    choice, schedule = proposals.choice_of(agent), _schedule_of(agent)
    cron = schedule.cron if schedule else ""
    form = ConsolidationSettings(
        initial={
            "applies_itself": "1" if choice.applies_itself else "",
            "budget": choice.budget,
            "cron": cron,
        }
    )
    if cron not in TIMES:
        form.fields["cron"].choices = [*TIMES.items(), (cron, f"By its schedule: {cron}")]  # type: ignore[attr-defined]
    return form


def _schedule_of(agent: Agent) -> Schedule | None:
    rows = Schedule.objects.for_workspace(agent.workspace_id)
    return rows.filter(agent=agent, task=Schedule.Task.CONSOLIDATION).first()


@require_POST
def consolidation_start(request: HttpRequest) -> HttpResponse:
    """Queue a consolidation of an agent's memory."""
    principal = principal_of(request)
    agent = find_agent(authorise(principal, "run"), request.POST.get("agent", ""))
    try:
        request_consolidation(agent, principal.user_id, principal.key_id)
    except Conflict as fault:
        messages.error(request, fault.detail)
    else:
        messages.success(request, f"The memory of {agent} is reviewed. This page lists the result.")
    return redirect(f"{reverse('memory_consolidations')}?agent={agent.pk}")


@require_POST
def consolidation_settings(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Change how and when the memory of an agent is consolidated."""
    principal = principal_of(request)
    agent = find_agent(authorise(principal, "build"), agent_id)
    form = ConsolidationSettings(request.POST)
    if not form.is_valid():
        messages.error(request, "Enter a budget of 0 or more, and choose one of the times.")
        return redirect(f"{reverse('memory_consolidations')}?agent={agent.pk}")
    data = form.cleaned_data
    proposals.set_choice(agent, applies_itself=bool(data["applies_itself"]), budget=data["budget"])
    _set_schedule(agent, principal, data["cron"])
    messages.success(request, "Saved.")
    return redirect(f"{reverse('memory_consolidations')}?agent={agent.pk}")


def _set_schedule(agent: Agent, principal: Principal, cron: str) -> None:
    schedule = _schedule_of(agent)
    if schedule and not cron:
        delete_row(schedule)
    elif schedule and schedule.cron != cron:
        change_schedule(schedule, kind=Schedule.Kind.CRON, cron=cron)
    elif cron and not schedule:
        create_schedule(
            workspace_id=agent.workspace_id,
            created_by=principal.user,
            agent=agent,
            name=f"Memory of {agent}"[:80],
            task=Schedule.Task.CONSOLIDATION,
            kind=Schedule.Kind.CRON,
            cron=cron,
        )


@require_safe
def consolidation(request: HttpRequest, consolidation_id: UUID) -> HttpResponse:
    """Show what one consolidation proposes or has changed, document by document."""
    principal = principal_of(request)
    row = proposals.find_consolidation(authorise(principal, "read"), consolidation_id)
    context = frame(principal) | {
        "row": row,
        "state": STATES[row.status],
        "lamp": LAMPS[row.status],
        "changes": [_described(one) for one in proposals.shown_changes(row)],
    }
    return render(request, "pages/memory/consolidation.html", context)


def _described(shown: Shown) -> dict[str, Any]:
    lines = diff_lines(shown.before, shown.after)
    added, removed = counted(lines)
    change = shown.change
    return {
        "change": change,
        "action": ACTIONS[change.action],
        "diff": lines,
        "added": added,
        "removed": removed,
        "reasons": [
            {**reason, "label": KINDS.get(reason["kind"], reason["kind"])}
            for reason in change.reasons
        ],
    }


DECISIONS = {"apply": proposals.apply, "discard": proposals.discard, "undo": proposals.undo}


@require_POST
def consolidation_decide(
    request: HttpRequest, consolidation_id: UUID, decision: str
) -> HttpResponse:
    """Apply, discard or undo a consolidation."""
    principal = principal_of(request)
    row = proposals.find_consolidation(authorise(principal, "run"), consolidation_id)
    if decision not in DECISIONS:
        raise NotFound
    try:
        done = DECISIONS[decision](row, by=principal.user_id)
    except Conflict as fault:
        messages.error(request, fault.detail)
    else:
        left = done.changes.filter(outcome="skipped").count() if decision == "apply" else 0
        if decision == "undo":
            left = done.changes.filter(outcome="applied").count()
        if left:
            messages.warning(request, f"{left} of the changes could not be made; see below why.")
        else:
            messages.success(request, f"{STATES[done.status]}.")
    return redirect("memory_consolidation", row.pk)
