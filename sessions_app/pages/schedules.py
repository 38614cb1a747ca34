"""Pages of schedules: the list, the form with its preview, the history and the actions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.models import Agent
from core.db import delete_row
from core.exceptions import Conflict, Invalid, NotFound
from sessions_app.models import Firing, Run, Schedule, Session
from sessions_app.schedules import schedules as schedule_service
from sessions_app.schedules import timing
from sessions_app.schedules.schedules import plan
from sessions_app.schedules.timing import describe, upcoming, zone_of
from tenants.access import Verb, authorise
from tenants.authentication import principal_of

MAX_SCHEDULES = 200
MAX_FIRINGS = 30
MAX_SESSION_CHOICES = 30
UNITS = {"60": "minutes", "3600": "hours", "86400": "days"}
KINDS = [
    ("interval", "At an interval", "Every few minutes, hours or days."),
    ("cron", "By the calendar", "At set times of the day, week or month, as a cron expression."),
    ("once", "Once", "At one time in the future."),
]
OUTCOMES = {
    "sent": ("is-done", "Sent"),
    "nothing_to_do": ("", "Nothing to do"),
    "failed": ("is-failed", "Failed"),
}


def sessions_to_choose(workspace_id: UUID, chosen: str = "") -> list[Session]:
    """Return the newest sessions and the chosen one. `chosen` is a form value like `session:ID`."""
    rows = Session.objects.for_workspace(workspace_id).active().select_related("agent__current")
    sessions = list(rows.latest_first()[:MAX_SESSION_CHOICES])
    kind, _, session_id = chosen.partition(":")
    if kind == "session":
        with suppress(ValueError):
            listed = {session.pk for session in sessions}
            sessions += [row for row in rows.filter(pk=UUID(session_id)) if row.pk not in listed]
    return sessions


@cache
def zones() -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(available_timezones())]


class ScheduleForm(forms.Form):
    KINDS = KINDS

    name = forms.CharField(label="Name", max_length=80)
    target = forms.ChoiceField(label="To")
    message = forms.CharField(
        label="Message",
        max_length=20_000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="The message that the agent receives each time.",
    )
    kind = forms.ChoiceField(choices=[(value, title) for value, title, _ in KINDS])
    every = forms.IntegerField(label="Every", min_value=1, max_value=1_000_000, required=False)
    unit = forms.ChoiceField(label="Unit", choices=list(UNITS.items()), required=False)
    cron = forms.CharField(
        label="Cron expression",
        max_length=120,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Minute, hour, day of month, month, weekday. 0 7 * * 1-5 is 07:00 on weekdays.",
    )
    at = forms.DateTimeField(
        label="At",
        required=False,
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    timezone = forms.ChoiceField(label="Time zone", initial="UTC")
    heartbeat = forms.BooleanField(
        label="Only when there is something to do",
        required=False,
        help_text="Checks the document HEARTBEAT.md in the agent's memory first. "
        "If its list is empty, nothing is sent and nothing is spent.",
    )

    def __init__(self, *args: Any, workspace_id: UUID, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.workspace_id = workspace_id
        self.fields["message"].required = self.initial.get("task") != Schedule.Task.CONSOLIDATION
        self.fields["timezone"].choices = zones()  # type: ignore[attr-defined]
        if not self.initial.get("pk"):
            self.fields["timezone"].widget.attrs["data-own-zone"] = ""
        target = str(self.initial.get("target", ""))
        choices = _target_choices(workspace_id, target)
        self.fields["target"].choices = choices  # type: ignore[attr-defined]

    def clean_at(self) -> datetime | None:
        # The time zone is another field.
        at: datetime | None = self.cleaned_data["at"]
        return at.replace(tzinfo=None) if at else None

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        required = {"interval": "every", "cron": "cron", "once": "at"}.get(data.get("kind", ""))
        if required and not data.get(required) and required not in self.errors:
            self.add_error(required, "This field is required.")
        return data

    def schedule_fields(self) -> dict[str, Any]:
        data = self.cleaned_data
        fields = {name: data[name] for name in ("name", "message", "heartbeat")}
        return {**fields, **self.timing(), **self._target()}

    def timing(self) -> dict[str, Any]:
        data, kind = self.cleaned_data, self.cleaned_data["kind"]
        every = (data.get("every") or 0) * int(data.get("unit") or 60)
        at = data["at"].replace(tzinfo=zone_of(data["timezone"])) if kind == "once" else None
        return {
            "kind": kind,
            "timezone": data["timezone"],
            "interval_seconds": every if kind == "interval" else None,
            "cron": data["cron"] if kind == "cron" else "",
            "next_at": at,
        }

    def _target(self) -> dict[str, Any]:
        kind, _, ident = self.cleaned_data["target"].partition(":")
        if kind == "session":
            rows = Session.objects.for_workspace(self.workspace_id).active()
            session = rows.select_related("agent").filter(pk=ident).first()
            if session is None:
                raise NotFound
            return {"session": session}
        agent = Agent.objects.for_workspace(self.workspace_id).offered().filter(pk=ident).first()
        if agent is None:
            raise NotFound
        return {"session": None, "agent": agent}


def _target_choices(workspace_id: UUID, chosen: str) -> list[tuple[str, list[tuple[str, str]]]]:
    agents = Agent.objects.for_workspace(workspace_id).offered().select_related("current")
    sessions = sessions_to_choose(workspace_id, chosen)
    groups = [
        (
            "A new session each time, with",
            [(f"agent:{agent.pk}", str(agent)) for agent in agents.order_by("created_at")],
        ),
        (
            "The same session each time",
            [(f"session:{s.pk}", f"{s.title or 'New chat'} · {s.agent}") for s in sessions],
        ),
    ]
    return [group for group in groups if group[1]]


def _initial(schedule: Schedule) -> dict[str, Any]:
    """Return the form values of a schedule."""
    seconds = schedule.interval_seconds or 0
    unit = next((size for size in ("86400", "3600") if seconds and seconds % int(size) == 0), "60")
    at = schedule.next_at if schedule.kind == "once" else None
    is_session = schedule.session_id is not None
    target = f"session:{schedule.session_id}" if is_session else f"agent:{schedule.agent_id}"
    return {
        "pk": schedule.pk,
        "name": schedule.name,
        "target": target,
        "task": schedule.task,
        "message": schedule.message,
        "kind": schedule.kind,
        "every": seconds // int(unit) or None,
        "unit": unit,
        "cron": schedule.cron,
        "at": at.astimezone(zone_of(schedule.timezone)).replace(tzinfo=None) if at else None,
        "timezone": schedule.timezone,
        "heartbeat": schedule.heartbeat,
    }


@dataclass(frozen=True, kw_only=True)
class ScheduleRow:
    """A schedule as the table shows it."""

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
class FiringRow:
    """A firing, with the status of the run that it started."""

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
    rows = [ScheduleRow(schedule=row, when=describe(row)) for row in found[:MAX_SCHEDULES]]
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
            created = schedule_service.create_schedule(
                workspace_id=workspace_id, created_by=principal.user, **form.schedule_fields()
            )
        except (Invalid, Conflict) as fault:
            form.add_error(None, fault.detail)
        else:
            messages.success(request, f"{created.name} created.")
            return redirect("schedule", created.pk)
    return _render_form(request, "pages/schedules/new.html", form)


@require_http_methods(["GET", "HEAD", "POST"])
def schedule(request: HttpRequest, schedule_id: UUID) -> HttpResponse:
    """Show the form and the history of a schedule."""
    current = _get_schedule(request, schedule_id, "run" if request.method == "POST" else "read")
    form = ScheduleForm(
        request.POST or None, workspace_id=current.workspace_id, initial=_initial(current)
    )
    if request.method == "POST" and "preview" not in request.POST and form.is_valid():
        try:
            schedule_service.change_schedule(current, **form.schedule_fields())
        except (Invalid, Conflict) as fault:
            form.add_error(None, fault.detail)
        else:
            messages.success(request, f"{current.name} saved.")
            return redirect("schedule", current.pk)
    row = ScheduleRow(schedule=current, when=describe(current))
    return _render_form(
        request, "pages/schedules/one.html", form, row=row, history=_history(current)
    )


def _render_form(
    request: HttpRequest, template: str, form: ScheduleForm, **extra: object
) -> HttpResponse:
    is_preview = "preview" in request.POST
    context = {
        "form": form,
        "may_run": principal_of(request).may("run"),
        "now": timezone.now(),
        **(_preview(form) if is_preview else {}),
        **extra,
    }
    is_invalid = form.is_bound and form.errors and not is_preview
    return render(request, template, context, status=400 if is_invalid else 200)


@require_safe
def schedule_preview(request: HttpRequest) -> HttpResponse:
    """Render the times at which a schedule with these fields would be due."""
    workspace_id = authorise(principal_of(request), "read")
    context = _preview(ScheduleForm(request.GET, workspace_id=workspace_id))
    return render(request, "pages/schedules/preview.html", context)


def _preview(form: ScheduleForm) -> dict[str, object]:
    """Return the next times of the form's timing, or what is wrong with it."""
    form.full_clean()
    invalid = [name for name in ("kind", "every", "cron", "at", "timezone") if name in form.errors]
    if invalid:
        return {"wrong": " ".join(str(error) for name in invalid for error in form.errors[name])}
    try:
        planned = plan(Schedule(message="…", **form.timing()))
    except Invalid as fault:
        return {"wrong": fault.detail}
    return {"when": describe(planned), "times": upcoming(planned, timezone.now())}


def _history(schedule: Schedule) -> list[FiringRow]:
    """Return the newest firings, with three queries."""
    firings = list(schedule.firings.all()[:MAX_FIRINGS])
    runs = dict(
        Run.objects.for_workspace(schedule.workspace_id)
        .filter(pk__in=[firing.run_id for firing in firings if firing.run_id])
        .values_list("pk", "status")
    )
    titles = dict(
        Session.objects.for_workspace(schedule.workspace_id)
        .filter(pk__in=[firing.session_id for firing in firings if firing.session_id])
        .values_list("pk", "title")
    )
    return [
        FiringRow(
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
    paused = _get_schedule(request, schedule_id, "run")
    timing.pause(paused)
    messages.success(request, f"{paused.name} paused. Nothing is sent until you resume it.")
    return _redirect_back(request, paused)


@require_POST
def schedule_resume(request: HttpRequest, schedule_id: UUID) -> HttpResponse:
    resumed = _get_schedule(request, schedule_id, "run")
    timing.resume(resumed)
    messages.success(request, f"{resumed.name} resumed.")
    return _redirect_back(request, resumed)


@require_POST
def schedule_run(request: HttpRequest, schedule_id: UUID) -> HttpResponse:
    """Send the message now. A second click on the same page sends nothing more."""
    current = _get_schedule(request, schedule_id, "run")
    firing = schedule_service.run_now(current, _requested_at(request))
    if firing.outcome == Firing.Outcome.FAILED:
        messages.error(request, f"The message was not sent: {firing.note}")
    else:
        messages.success(request, f"{current.name} was sent.")
    return redirect("schedule", current.pk)


def _requested_at(request: HttpRequest) -> datetime | None:
    try:
        moment = parse_datetime(request.POST.get("asked_at", ""))
    except ValueError:
        return None
    return moment if moment and moment.tzinfo else None


@require_POST
def schedule_delete(request: HttpRequest, schedule_id: UUID) -> HttpResponse:
    deleted = _get_schedule(request, schedule_id, "run")
    delete_row(deleted)
    messages.success(request, f"{deleted.name} deleted. Its sessions are kept.")
    return redirect("schedules")


def _get_schedule(request: HttpRequest, schedule_id: UUID, verb: Verb) -> Schedule:
    workspace_id = authorise(principal_of(request), verb)
    rows = Schedule.objects.for_workspace(workspace_id).select_related("agent__current", "session")
    row = rows.filter(pk=schedule_id).first()
    if row is None:
        raise NotFound
    return row


def _redirect_back(request: HttpRequest, schedule: Schedule) -> HttpResponse:
    is_list = request.POST.get("from") == "list"
    return redirect("schedules") if is_list else redirect("schedule", schedule.pk)
