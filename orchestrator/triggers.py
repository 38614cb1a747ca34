"""What starts workflows by itself: schedules and incoming webhooks, as people set them up."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime
from secrets import token_bytes, token_urlsafe
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.utils import timezone

from agents.canvas_paths import is_input
from agents.canvas_templates import paths_in
from agents.inputs import inside
from config.faults import Conflict, Invalid
from orchestrator.canvas.running import CANVAS
from orchestrator.engine.definition import checked_params, current
from orchestrator.models import WorkflowTrigger
from sessions_app.models import Schedule
from sessions_app.timing import LONGEST, SHORTEST, check_cron, next_time, zone_of
from tenants.models import Workspace
from tenants.rows import hold

MOST_PER_WORKSPACE = 200
MOST_PARAMS = 16 * 1024
Kind = WorkflowTrigger.Kind
#: What a trigger is and how it is called stays; make another one instead.
FIXED = ("kind", "verify")
#: What says when it is due.
WHEN = ("interval_seconds", "cron", "timezone")


@dataclass(frozen=True, kw_only=True)
class SecretTrigger:
    """A trigger with its new secret, to be shown once; a schedule has none."""

    trigger: WorkflowTrigger
    secret: str


def plan(trigger: WorkflowTrigger, now: datetime | None = None) -> WorkflowTrigger:
    """Check what was asked for, and set when it is due first."""
    current(trigger.workflow)
    if trigger.workflow == CANVAS and trigger.agent_id is None:
        raise Invalid("Name the agent whose canvas is to run.")
    if len(orjson.dumps(trigger.params)) > MOST_PARAMS:
        raise Invalid(f"The params of a trigger have at most {MOST_PARAMS:,} bytes.")
    _check_params(trigger)
    if trigger.kind == Kind.SCHEDULE:
        _check_times(trigger)
        trigger.next_at = next_time(timetable(trigger), now or timezone.now())
    return trigger


def _check_params(trigger: WorkflowTrigger) -> None:
    """What is wrong already is told now, and not by the first time that it is due."""
    paths = list(paths_in(trigger.params))
    for path in paths:
        if not is_input(path):
            raise Invalid(f"{path[:80]!r} is nothing that is known: write input or input.NAME.")
    if not paths and trigger.workflow != CANVAS:
        with inside("params"):
            checked_params(current(trigger.workflow), trigger.params, trigger.workspace_id)


def _check_times(trigger: WorkflowTrigger) -> None:
    zone_of(trigger.timezone)
    if bool(trigger.cron) == bool(trigger.interval_seconds):
        raise Invalid("Say either an interval or a cron expression.")
    if trigger.cron:
        check_cron(trigger.cron, trigger.timezone)
    elif not SHORTEST.total_seconds() <= (trigger.interval_seconds or 0) <= LONGEST.total_seconds():
        raise Invalid("An interval is from 60 seconds to a year.")


def timetable(trigger: WorkflowTrigger) -> Schedule:
    """The same times as a schedule of messages has, which is never stored."""
    return Schedule(
        kind=Schedule.Kind.CRON if trigger.cron else Schedule.Kind.INTERVAL,
        cron=trigger.cron,
        interval_seconds=trigger.interval_seconds,
        timezone=trigger.timezone,
        next_at=trigger.next_at,
    )


def new_secret(verify: str) -> str:
    if verify == WorkflowTrigger.Verify.TOKEN:
        return f"hook_{token_urlsafe(32)}"
    return f"whsec_{b64encode(token_bytes(32)).decode()}"


@transaction.atomic
def create_trigger(*, workspace_id: UUID, **fields: Any) -> SecretTrigger:
    """A new trigger, within what one workspace may have."""
    trigger = plan(WorkflowTrigger(workspace_id=workspace_id, **fields))
    # Two requests at once must not both be the last one allowed.
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
    if WorkflowTrigger.objects.for_workspace(workspace_id).count() >= MOST_PER_WORKSPACE:
        raise Conflict(f"A workspace has at most {MOST_PER_WORKSPACE} triggers. Remove one first.")
    secret = ""
    if trigger.kind == Kind.WEBHOOK:
        secret = trigger.secret = new_secret(trigger.verify)
        trigger.token = token_urlsafe(24)
    trigger.save()
    return SecretTrigger(trigger=trigger, secret=secret)


@transaction.atomic
def change_trigger(trigger: WorkflowTrigger, **fields: Any) -> WorkflowTrigger:
    """Say anew what is started, with what, or when. Only another time moves the next one."""
    locked = hold(trigger)
    due = locked.next_at
    is_moved = any(getattr(locked, name) != fields[name] for name in WHEN if name in fields)
    for name, value in fields.items():
        if name not in FIXED:
            setattr(locked, name, value)
    plan(locked)
    if not is_moved:
        locked.next_at = due
    locked.save()
    return locked


@transaction.atomic
def rotate_secret(trigger: WorkflowTrigger) -> SecretTrigger:
    """A new secret; the old one is worth nothing from now on."""
    hold(trigger)
    if trigger.kind != Kind.WEBHOOK:
        raise Conflict("Only a webhook has a secret.")
    trigger.secret = new_secret(trigger.verify)
    trigger.save(update_fields=["secret"])
    return SecretTrigger(trigger=trigger, secret=trigger.secret)


@transaction.atomic
def pause(trigger: WorkflowTrigger) -> None:
    hold(trigger)
    trigger.paused_at = timezone.now()
    trigger.save(update_fields=["paused_at"])


@transaction.atomic
def resume(trigger: WorkflowTrigger) -> None:
    """Go on from now; what would have been due meanwhile is not made up for. What goes on stays."""
    locked = hold(trigger)
    trigger.paused_at, trigger.next_at = None, locked.next_at
    if locked.paused_at and locked.kind == Kind.SCHEDULE:
        trigger.next_at = next_time(timetable(trigger), timezone.now())
    trigger.save(update_fields=["paused_at", "next_at"])
