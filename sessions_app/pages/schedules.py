"""Schedules: which there are, when each is due, what came of it; made, changed, paused, run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from config.faults import Conflict, Invalid, NotFound
from sessions_app import schedules as planning
from sessions_app.models import Firing, Run, Schedule, Session
from sessions_app.pages.schedule_form import ScheduleForm, initial_of, planned
from sessions_app.timing import describe, upcoming
from tenants.access import Verb, authorise
from tenants.authentication import principal_of
from tenants.rows import remove

MOST_SHOWN = 200
HISTORY = 30
OUTCOMES = {
    "sent": ("is-done", "Sent"),
    "nothing_to_do": ("", "Nothing to do"),
    "failed": ("is-failed", "Failed"),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One schedule, as the table shows it."""

    schedule: Schedule
    when: str

    @property
    def state(self) -> str:
        if self.schedule.paused_at:
            return "Paused"
        return "Active" if self.schedule.next_at else "Done"

    @property
    def lamp(self) -> str:
        return {"Paused": "is-waiting", "Active": "is-done"}.get(self.state, "")


@dataclass(frozen=True, kw_only=True)
class Event:
    """One firing, with what became of the run it began."""

    firing: Firing
    lamp: str
    word: str
    run: str
    title: str


@require_safe
def schedules(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    found = Schedule.objects.for_workspace(workspace_id).select_related("agent__current", "session")
    rows = [Row(schedule=one, when=describe(one)) for one in found[:MOST_SHOWN]]
    context = {"rows": rows, "may_run": principal.may("run"), "now": timezone.now()}
    return render(request, "pages/schedules/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def schedule_new(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "run")
    initial = {"kind": "interval", "every": 1, "unit": "3600", "target": request.GET.get("to", "")}
    form = ScheduleForm(request.POST or None, workspace_id=workspace_id, initial=initial)
    if request.method == "POST" and "preview" not in request.POST and form.is_valid():
        try:
            made = planning.create_schedule(
                workspace_id=workspace_id, created_by=principal.user, **form.fields_of_schedule()
            )
        except (Invalid, Conflict) as fault:
            form.add_error(None, fault.detail)
        else:
            messages.success(request, f"{made.name} is planned.")
            return redirect("schedule", made.pk)
    return form_page(request, "pages/schedules/new.html", form)


@require_http_methods(["GET", "HEAD", "POST"])
def schedule(request: HttpRequest, schedule_id: UUID) -> HttpResponse:
    """One schedule: its form and its history."""
    one = found(request, schedule_id, "run" if request.method == "POST" else "read")
    form = ScheduleForm(
        request.POST or None, workspace_id=one.workspace_id, initial=initial_of(one)
    )
    if request.method == "POST" and "preview" not in request.POST and form.is_valid():
        try:
            planning.change_schedule(one, **form.fields_of_schedule())
        except (Invalid, Conflict) as fault:
            form.add_error(None, fault.detail)
        else:
            messages.success(request, f"{one.name} is changed.")
            return redirect("schedule", one.pk)
    context = {"row": Row(schedule=one, when=describe(one)), "history": history_of(one)}
    return form_page(request, "pages/schedules/one.html", form, **context)


def form_page(
    request: HttpRequest, template: str, form: ScheduleForm, **more: object
) -> HttpResponse:
    is_preview = "preview" in request.POST
    context = {
        "form": form,
        "may_run": principal_of(request).may("run"),
        "now": timezone.now(),
        **(preview_of(planned(form)) if is_preview else {}),
        **more,
    }
    wrong = form.is_bound and form.errors and not is_preview
    return render(request, template, context, status=400 if wrong else 200)


@require_safe
def schedule_preview(request: HttpRequest) -> HttpResponse:
    """When a schedule with these fields would be due: a piece of a page."""
    workspace_id = authorise(principal_of(request), "read")
    context = preview_of(planned(ScheduleForm(request.GET, workspace_id=workspace_id)))
    return render(request, "pages/schedules/preview.html", context)


def preview_of(made: Schedule | str) -> dict[str, object]:
    if isinstance(made, str):
        return {"wrong": made}
    return {"when": describe(made), "times": upcoming(made, timezone.now())}


def history_of(one: Schedule) -> list[Event]:
    """The newest firings. Three queries, however many there are."""
    firings = list(one.firings.all()[:HISTORY])
    runs = dict(
        Run.objects.for_workspace(one.workspace_id)
        .filter(pk__in=[firing.run_id for firing in firings if firing.run_id])
        .values_list("pk", "status")
    )
    titles = dict(
        Session.objects.for_workspace(one.workspace_id)
        .filter(pk__in=[firing.session_id for firing in firings if firing.session_id])
        .values_list("pk", "title")
    )
    return [
        Event(
            firing=firing,
            lamp=OUTCOMES[firing.outcome][0],
            word=OUTCOMES[firing.outcome][1],
            run=runs.get(firing.run_id, "") if firing.run_id else "",
            title=titles.get(firing.session_id, "") if firing.session_id else "",
        )
        for firing in firings
    ]


@require_POST
def schedule_pause(request: HttpRequest, schedule_id: UUID) -> HttpResponse:
    one = found(request, schedule_id, "run")
    planning.pause(one)
    messages.success(request, f"{one.name} is paused. Nothing is sent until it is resumed.")
    return back(request, one)


@require_POST
def schedule_resume(request: HttpRequest, schedule_id: UUID) -> HttpResponse:
    one = found(request, schedule_id, "run")
    planning.resume(one)
    messages.success(request, f"{one.name} goes on from now.")
    return back(request, one)


@require_POST
def schedule_run(request: HttpRequest, schedule_id: UUID) -> HttpResponse:
    """Send it now. Two clicks on one page are one wish."""
    one = found(request, schedule_id, "run")
    firing = planning.run_now(one, asked_at(request))
    if firing.outcome == Firing.Outcome.FAILED:
        messages.error(request, f"It was not sent: {firing.note}")
    else:
        messages.success(request, f"{one.name} was sent.")
    return redirect("schedule", one.pk)


def asked_at(request: HttpRequest) -> datetime | None:
    try:
        asked = parse_datetime(request.POST.get("asked_at", ""))
    except ValueError:
        return None
    return asked if asked and asked.tzinfo else None


@require_POST
def schedule_delete(request: HttpRequest, schedule_id: UUID) -> HttpResponse:
    one = found(request, schedule_id, "run")
    remove(one)
    messages.success(request, f"{one.name} is deleted. Its sessions stay.")
    return redirect("schedules")


def found(request: HttpRequest, schedule_id: UUID, verb: Verb) -> Schedule:
    workspace_id = authorise(principal_of(request), verb)
    rows = Schedule.objects.for_workspace(workspace_id).select_related("agent__current", "session")
    one = rows.filter(pk=schedule_id).first()
    if one is None:
        raise NotFound
    return one


def back(request: HttpRequest, one: Schedule) -> HttpResponse:
    return (
        redirect("schedules")
        if request.POST.get("from") == "list"
        else redirect("schedule", one.pk)
    )
