"""What starts workflows by itself: times, fired once each by the supervisor, and incoming webhooks."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_bytes, token_urlsafe
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.utils import timezone

from agents.canvas_paths import Facts, is_input
from agents.canvas_templates import fill, paths_in
from config.faults import Conflict, Fault, Invalid
from orchestrator.canvas.walk import CANVAS
from orchestrator.engine.definition import checked_params, current
from orchestrator.engine.starting import start_workflow
from orchestrator.models import TriggerFiring, Workflow, WorkflowTrigger
from sessions_app.models import Schedule
from sessions_app.timing import LONGEST, SHORTEST, advance, check_cron, next_time, zone_of
from tenants.models import Workspace

MOST_PER_WORKSPACE = 200
MOST_PARAMS = 16 * 1024
AT_ONCE = 50
#: How long firings are remembered, and with them which messages came already.
KEPT = timedelta(days=30)
FORGOTTEN_AT_ONCE = 1_000
Kind, Outcome = WorkflowTrigger.Kind, TriggerFiring.Outcome
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
        trigger.next_at = next_time(_timetable(trigger), now or timezone.now())
    return trigger


def _check_params(trigger: WorkflowTrigger) -> None:
    """What is wrong already is told now, and not by the first time that it is due."""
    paths = list(paths_in(trigger.params))
    for path in paths:
        if not is_input(path):
            raise Invalid(f"{path[:80]!r} is nothing that is known: write input or input.NAME.")
    if not paths and trigger.workflow != CANVAS:
        checked_params(current(trigger.workflow), trigger.params, trigger.workspace_id)


def _check_times(trigger: WorkflowTrigger) -> None:
    zone_of(trigger.timezone)
    if bool(trigger.cron) == bool(trigger.interval_seconds):
        raise Invalid("Say either an interval or a cron expression.")
    if trigger.cron:
        check_cron(trigger.cron, trigger.timezone)
    elif not SHORTEST.total_seconds() <= (trigger.interval_seconds or 0) <= LONGEST.total_seconds():
        raise Invalid("An interval is from 60 seconds to a year.")


def _timetable(trigger: WorkflowTrigger) -> Schedule:
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
    locked = WorkflowTrigger.objects.select_for_update(no_key=True).get(pk=trigger.pk)
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


def rotate_secret(trigger: WorkflowTrigger) -> SecretTrigger:
    """A new secret; the old one is worth nothing from now on."""
    if trigger.kind != Kind.WEBHOOK:
        raise Conflict("Only a webhook has a secret.")
    trigger.secret = new_secret(trigger.verify)
    trigger.save(update_fields=["secret"])
    return SecretTrigger(trigger=trigger, secret=trigger.secret)


def pause(trigger: WorkflowTrigger) -> None:
    trigger.paused_at = timezone.now()
    trigger.save(update_fields=["paused_at"])


def resume(trigger: WorkflowTrigger) -> None:
    """Go on from now; what would have been due meanwhile is not made up for."""
    trigger.paused_at = None
    if trigger.kind == Kind.SCHEDULE:
        trigger.next_at = next_time(_timetable(trigger), timezone.now())
    trigger.save(update_fields=["paused_at", "next_at"])


# ── Firing ───────────────────────────────────────────────────────────────────────────────────────


def launch(trigger: WorkflowTrigger, given: Any, key: str) -> Workflow:
    """Start what it is for. The same key starts it once."""
    params = fill(trigger.params, Facts(input=given))
    if trigger.workflow == CANVAS:
        params = {"agent": str(trigger.agent_id), "input": params or given}
    digest = sha256(key.encode()).hexdigest()[:40]
    made, _ = start_workflow(
        trigger.workspace_id,
        trigger.workflow,
        params,
        key=f"trigger:{trigger.pk}:{digest}",
        created_by_id=trigger.created_by_id,
        agent_id=trigger.agent_id,
    )
    return made


def fire_due() -> int:
    """Fire what is due, each in a transaction of its own. For the supervisor, on any node."""
    fired = 0
    while fired < AT_ONCE and _fire_next():
        fired += 1
    return fired


@transaction.atomic
def _fire_next() -> bool:
    now = timezone.now()
    due = (
        WorkflowTrigger.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
        .filter(kind=Kind.SCHEDULE, paused_at=None, next_at__lte=now)
        .order_by("next_at")
        .first()
    )
    if due is None or due.next_at is None:
        return False
    moment = due.next_at.isoformat()
    due.next_at, missed = advance(_timetable(due), now)
    due.last_at = now
    due.save(update_fields=["next_at", "last_at"])
    firing = TriggerFiring(workspace_id=due.workspace_id, trigger=due, key=moment, missed=missed)
    try:
        with transaction.atomic():
            made = launch(due, {"due_at": moment, "trigger": due.name}, moment)
            firing.workflow_id, firing.outcome = made.pk, Outcome.STARTED
    except Fault as fault:
        firing.outcome, firing.note = Outcome.FAILED, fault.detail[:300]
    firing.save()
    return True


def receive(trigger: WorkflowTrigger, given: Any, key: str) -> tuple[TriggerFiring, bool]:
    """Start what a message asks for, and say whether it was new. What fails may come again."""
    try:
        return _receive(trigger, given, key)
    except Fault as fault:
        TriggerFiring.objects.create(
            workspace_id=trigger.workspace_id,
            trigger=trigger,
            outcome=Outcome.FAILED,
            note=fault.detail[:300],
        )
        raise


@transaction.atomic
def _receive(trigger: WorkflowTrigger, given: Any, key: str) -> tuple[TriggerFiring, bool]:
    # Two deliveries of one message wait for each other here.
    held = WorkflowTrigger.objects.select_for_update(no_key=True).get(pk=trigger.pk)
    if known := TriggerFiring.objects.filter(trigger=held, key=key).first():
        return known, False
    if held.paused_at:
        raise Conflict("This trigger is paused.")
    made = launch(held, given, key)
    held.last_at = timezone.now()
    held.save(update_fields=["last_at"])
    firing = TriggerFiring.objects.create(
        workspace_id=held.workspace_id,
        trigger=held,
        key=key,
        outcome=Outcome.STARTED,
        workflow_id=made.pk,
    )
    return firing, True


def forget_old_firings() -> int:
    old = TriggerFiring.objects.filter(created_at__lt=timezone.now() - KEPT)
    ids = list(old.order_by("created_at").values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    return TriggerFiring.objects.filter(pk__in=ids).delete()[0]
