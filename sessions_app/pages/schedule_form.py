"""The form of a schedule: to whom, what, and when, in the words of people."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django import forms

from agents.models import Agent
from config.faults import Invalid, NotFound
from sessions_app.models import Schedule, Session
from sessions_app.pages.choosing import sessions_to_choose
from sessions_app.schedules import plan
from sessions_app.timing import zone_of

UNITS = {"60": "minutes", "3600": "hours", "86400": "days"}
KINDS = [
    ("interval", "Again and again", "Every so many minutes, hours or days."),
    ("cron", "By the calendar", "At times of the day, the week or the month, as cron writes them."),
    ("once", "Once", "At one time to come."),
]


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
        help_text="What the agent is told each time.",
    )
    kind = forms.ChoiceField(choices=[(value, title) for value, title, _ in KINDS])
    every = forms.IntegerField(label="Every", min_value=1, max_value=1_000_000, required=False)
    unit = forms.ChoiceField(label="Unit", choices=list(UNITS.items()), required=False)
    cron = forms.CharField(
        label="Cron expression",
        max_length=120,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Minute, hour, day of the month, month, weekday. 0 7 * * 1-5 is 07:00 on workdays.",
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
        help_text="Looks into the document HEARTBEAT.md of the agent's memory first. "
        "When nothing is on its list, nothing is sent and nothing is spent.",
    )

    def __init__(self, *args: Any, workspace_id: UUID, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.workspace_id = workspace_id
        self.fields["timezone"].choices = zones()  # type: ignore[attr-defined]
        if not self.initial.get("pk"):
            self.fields["timezone"].widget.attrs["data-own-zone"] = ""
        target = str(self.initial.get("target", ""))
        self.fields["target"].choices = targets(workspace_id, target)  # type: ignore[attr-defined]

    def clean_at(self) -> datetime | None:
        """As it stands: the zone is another field."""
        at: datetime | None = self.cleaned_data["at"]
        return at.replace(tzinfo=None) if at else None

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        needed = {"interval": "every", "cron": "cron", "once": "at"}.get(found.get("kind", ""))
        if needed and not found.get(needed) and needed not in self.errors:
            self.add_error(needed, "Say when.")
        return found

    def fields_of_schedule(self) -> dict[str, Any]:
        given = self.cleaned_data
        fields = {name: given[name] for name in ("name", "message", "heartbeat")}
        return {**fields, **self._when(), **self._whom()}

    def _when(self) -> dict[str, Any]:
        given, kind = self.cleaned_data, self.cleaned_data["kind"]
        every = (given.get("every") or 0) * int(given.get("unit") or 60)
        at = given["at"].replace(tzinfo=zone_of(given["timezone"])) if kind == "once" else None
        return {
            "kind": kind,
            "timezone": given["timezone"],
            "interval_seconds": every if kind == "interval" else None,
            "cron": given["cron"] if kind == "cron" else "",
            "next_at": at,
        }

    def _whom(self) -> dict[str, Any]:
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


def planned(form: ScheduleForm) -> Schedule | str:
    """The schedule that only the times of this form would make, or what is wrong with them."""
    form.full_clean()
    wrong = [name for name in ("kind", "every", "cron", "at", "timezone") if name in form.errors]
    if wrong:
        return " ".join(str(error) for name in wrong for error in form.errors[name])
    try:
        return plan(Schedule(message="…", **form._when()))
    except Invalid as fault:
        return fault.detail


def targets(workspace_id: UUID, chosen: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """A new session with an agent each time, or one session again and again."""
    agents = Agent.objects.for_workspace(workspace_id).offered().select_related("current")
    found = sessions_to_choose(workspace_id, chosen)
    groups = [
        (
            "A new session each time, with",
            [(f"agent:{one.pk}", str(one)) for one in agents.order_by("created_at")],
        ),
        (
            "The same session each time",
            [(f"session:{one.pk}", f"{one.title or 'New chat'} · {one.agent}") for one in found],
        ),
    ]
    return [group for group in groups if group[1]]


def initial_of(schedule: Schedule) -> dict[str, Any]:
    """The form as this schedule would have filled it in."""
    seconds = schedule.interval_seconds or 0
    unit = next((size for size in ("86400", "3600") if seconds and seconds % int(size) == 0), "60")
    at = schedule.next_at if schedule.kind == "once" else None
    whom = f"session:{schedule.session_id}" if schedule.session_id else f"agent:{schedule.agent_id}"
    return {
        "pk": schedule.pk,
        "name": schedule.name,
        "target": whom,
        "message": schedule.message,
        "kind": schedule.kind,
        "every": seconds // int(unit) or None,
        "unit": unit,
        "cron": schedule.cron,
        "at": at.astimezone(zone_of(schedule.timezone)).replace(tzinfo=None) if at else None,
        "timezone": schedule.timezone,
        "heartbeat": schedule.heartbeat,
    }
