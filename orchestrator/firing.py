"""Fires triggers: each due time and each message starts one workflow, and what came of it is kept."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from typing import Any

import structlog
from django.db import transaction
from django.utils import timezone

from agents.canvas_paths import Facts
from agents.canvas_templates import fill
from config.faults import Conflict, Fault
from orchestrator.canvas.running import CANVAS
from orchestrator.engine.starting import start_workflow
from orchestrator.models import TriggerFiring, Workflow, WorkflowTrigger
from orchestrator.triggers import timetable
from sessions_app.timing import advance

log = structlog.get_logger(__name__)

AT_ONCE = 50
#: How long firings are remembered, and with them which messages came already.
KEPT = timedelta(days=30)
FORGOTTEN_AT_ONCE = 1_000
BROKEN = "The workflow could not be started, for a reason that only the log of the server tells."
Kind, Outcome = WorkflowTrigger.Kind, TriggerFiring.Outcome


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
    firing = TriggerFiring(workspace_id=due.workspace_id, trigger=due, key=moment)
    times = timetable(due)
    # One whose times make no sense any more, as its time zone is gone, ends here.
    due.next_at, due.last_at = None, now
    try:
        due.next_at, firing.missed = advance(times, now)
        with transaction.atomic():
            made = launch(due, {"due_at": moment, "trigger": due.name}, moment)
            firing.workflow_id, firing.outcome = made.pk, Outcome.STARTED
    except Fault as fault:
        firing.outcome, firing.note = Outcome.FAILED, fault.detail[:300]
    except Exception:
        # Of all that are due it is the first: it must not keep the others from being fired.
        log.exception("trigger_broken", trigger_id=str(due.pk))
        firing.outcome, firing.note = Outcome.FAILED, BROKEN
    due.save(update_fields=["next_at", "last_at"])
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
