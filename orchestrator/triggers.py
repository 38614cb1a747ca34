"""Triggers: times and incoming webhooks that start workflows.

Each due time and each message starts one workflow, and its outcome is recorded.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_bytes, token_urlsafe
from typing import Any
from uuid import UUID

import orjson
import structlog
from django.db import transaction
from django.utils import timezone

from agents.canvas.expressions import Facts, fill, is_input, paths_in
from core.db import lock_row
from core.exceptions import Conflict, Fault, Invalid
from core.validation import errors_under
from orchestrator.canvas.plan import CANVAS
from orchestrator.engine.definition import latest_version, validate_params
from orchestrator.engine.lifecycle import start_workflow
from orchestrator.models import TriggerFiring, Workflow, WorkflowTrigger
from sessions_app.schedules.timing import advance, check_times, fire_due, next_time
from tenants.quotas import TRIGGERS, check_quota

log = structlog.get_logger(__name__)

Kind, Outcome = WorkflowTrigger.Kind, TriggerFiring.Outcome

MAX_PARAMS = 16 * 1024
#: A trigger keeps its kind and the way its callers are verified.
FIXED_FIELDS = ("kind", "verify")
TIME_FIELDS = ("interval_seconds", "cron", "timezone")
#: How long firings are kept, and with them which messages have been received.
RETENTION = timedelta(days=30)
DELETE_BATCH = 1_000
BROKEN = "The workflow could not be started. See the server's log for the reason."

# ── Setting up ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class SecretTrigger:
    """A trigger with its new secret, to be shown once; a schedule has none."""

    trigger: WorkflowTrigger
    secret: str


def plan(trigger: WorkflowTrigger, now: datetime | None = None) -> WorkflowTrigger:
    """Validate the trigger, and set when it is due first."""
    latest_version(trigger.workflow)
    if trigger.workflow == CANVAS and trigger.agent_id is None:
        raise Invalid("Name the agent whose canvas is to run.")
    if len(orjson.dumps(trigger.params)) > MAX_PARAMS:
        raise Invalid(f"The params of a trigger may have at most {MAX_PARAMS:,} bytes.")
    _check_params(trigger)
    if trigger.kind == Kind.SCHEDULE:
        if bool(trigger.cron) == bool(trigger.interval_seconds):
            raise Invalid("Give either an interval or a cron expression.")
        check_times(trigger)
        trigger.next_at = next_time(trigger, now or timezone.now())
    return trigger


def _check_params(trigger: WorkflowTrigger) -> None:
    """Raise now what would otherwise fail at the first firing."""
    paths = list(paths_in(trigger.params))
    for path in paths:
        if not is_input(path):
            raise Invalid(f"{path[:80]!r} is unknown. Use input or input.NAME.")
    if not paths and trigger.workflow != CANVAS:
        with errors_under("params"):
            validate_params(latest_version(trigger.workflow), trigger.params, trigger.workspace_id)


def new_secret(verify: str) -> str:
    if verify == WorkflowTrigger.Verify.TOKEN:
        return f"hook_{token_urlsafe(32)}"
    return f"whsec_{b64encode(token_bytes(32)).decode()}"


@transaction.atomic
def create_trigger(*, workspace_id: UUID, **fields: Any) -> SecretTrigger:
    """Create a trigger, within the limit of its workspace."""
    trigger = plan(WorkflowTrigger(workspace_id=workspace_id, **fields))
    check_quota(workspace_id, TRIGGERS, WorkflowTrigger.objects.for_workspace(workspace_id))
    secret = ""
    if trigger.kind == Kind.WEBHOOK:
        secret = trigger.secret = new_secret(trigger.verify)
        trigger.token = token_urlsafe(24)
    trigger.save()
    return SecretTrigger(trigger=trigger, secret=secret)


@transaction.atomic
def change_trigger(trigger: WorkflowTrigger, **fields: Any) -> WorkflowTrigger:
    """Change what is started, with what, or when. Only another time moves the next firing."""
    locked = lock_row(trigger)
    due = locked.next_at
    is_moved = any(getattr(locked, name) != fields[name] for name in TIME_FIELDS if name in fields)
    for name, value in fields.items():
        if name not in FIXED_FIELDS:
            setattr(locked, name, value)
    plan(locked)
    if not is_moved:
        locked.next_at = due
    locked.save()
    return locked


@transaction.atomic
def rotate_secret(trigger: WorkflowTrigger) -> SecretTrigger:
    """Replace the secret of a webhook; the old one is no longer accepted."""
    lock_row(trigger)
    if trigger.kind != Kind.WEBHOOK:
        raise Conflict("Only a webhook has a secret.")
    trigger.secret = new_secret(trigger.verify)
    trigger.save(update_fields=["secret"])
    return SecretTrigger(trigger=trigger, secret=trigger.secret)


# ── Firing ───────────────────────────────────────────────────────────────────────────────────────


def fire_due_triggers() -> int:
    """Fire the triggers that are due. The supervisor calls this, on any number of nodes."""
    return fire_due(WorkflowTrigger.objects.filter(kind=Kind.SCHEDULE), fire)


def fire(due: WorkflowTrigger) -> None:
    """Start the workflow of a trigger that is due, and record the outcome. The row is locked."""
    now = timezone.now()
    moment = (due.next_at or now).isoformat()
    firing = TriggerFiring(workspace_id=due.workspace_id, trigger=due, key=moment)
    next_at = None
    try:
        next_at, firing.missed = advance(due, now)
        with transaction.atomic():
            started = start(due, {"due_at": moment, "trigger": due.name}, moment)
            firing.workflow_id, firing.outcome = started.pk, Outcome.STARTED
    except Fault as fault:
        firing.outcome, firing.note = Outcome.FAILED, fault.detail[:300]
    except Exception:
        # Recorded, and not tried again every second.
        log.exception("trigger_broken", trigger_id=str(due.pk))
        firing.outcome, firing.note = Outcome.FAILED, BROKEN
    # A trigger whose times are no longer valid, because its time zone is gone, ends here.
    due.next_at, due.last_at = next_at, now
    due.save(update_fields=["next_at", "last_at"])
    firing.save()


def start(trigger: WorkflowTrigger, given: Any, key: str) -> Workflow:
    """Start the trigger's workflow with what was given. The same key starts it once."""
    params = fill(trigger.params, Facts(input=given))
    if trigger.workflow == CANVAS:
        params = {"agent": str(trigger.agent_id), "input": params or given}
    digest = sha256(key.encode()).hexdigest()[:40]
    started, _ = start_workflow(
        trigger.workspace_id,
        trigger.workflow,
        params,
        key=f"trigger:{trigger.pk}:{digest}",
        created_by_id=trigger.created_by_id,
        agent_id=trigger.agent_id,
    )
    return started


def receive(trigger: WorkflowTrigger, given: Any, key: str) -> tuple[TriggerFiring, bool]:
    """Start the workflow for a message, and return whether it was new. One that fails may be sent again."""
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
    locked = WorkflowTrigger.objects.select_for_update(no_key=True).get(pk=trigger.pk)
    if known := TriggerFiring.objects.filter(trigger=locked, key=key).first():
        return known, False
    if locked.paused_at:
        raise Conflict("This trigger is paused.")
    started = start(locked, given, key)
    locked.last_at = timezone.now()
    locked.save(update_fields=["last_at"])
    firing = TriggerFiring.objects.create(
        workspace_id=locked.workspace_id,
        trigger=locked,
        key=key,
        outcome=Outcome.STARTED,
        workflow_id=started.pk,
    )
    return firing, True


def delete_old_firings() -> int:
    old = TriggerFiring.objects.filter(created_at__lt=timezone.now() - RETENTION)
    ids = list(old.order_by("created_at").values_list("pk", flat=True)[:DELETE_BATCH])
    return TriggerFiring.objects.filter(pk__in=ids).delete()[0]
