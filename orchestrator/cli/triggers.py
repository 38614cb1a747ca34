"""`workflows triggers …`: what starts workflows by itself."""

from __future__ import annotations

from uuid import UUID

import orjson
from django.core.management.base import CommandError

from agents.definitions import find_agent
from orchestrator import triggers
from orchestrator.models import TriggerFiring, WorkflowTrigger
from sessions_app.cli.desk import Desk
from tenants.rows import remove as delete_row

LISTED = 50


def _trigger(desk: Desk) -> WorkflowTrigger:
    rows = WorkflowTrigger.objects.for_workspace(desk.workspace_id)
    try:
        found = rows.filter(pk=UUID(desk.asked["trigger"])).first()
    except ValueError:
        found = rows.filter(name=desk.asked["trigger"]).first()
    if found is None:
        raise CommandError(f"There is no trigger {desk.asked['trigger']} here.")
    return found


def _say(desk: Desk, one: WorkflowTrigger, **more: object) -> None:
    when = one.path or one.cron or f"every {one.interval_seconds} s"
    state = "paused" if one.paused_at else "active"
    facts = {"kind": one.kind, "workflow": one.workflow, "when": when, "state": state}
    secret = f"  secret: {more['secret']}" if more.get("secret") else ""
    desk.say(
        f"{one.pk}  {state:<6}  {one.name}  {one.workflow}  {when}{secret}",
        id=one.pk,
        name=one.name,
        next_at=one.next_at,
        **facts,
        **more,
    )


def list_triggers(desk: Desk) -> None:
    """The triggers of the workspace."""
    for one in WorkflowTrigger.objects.for_workspace(desk.workspace_id):
        _say(desk, one)


def add(desk: Desk) -> None:
    """Set up a schedule (--cron or --every) or a webhook, whose secret is shown once."""
    asked = desk.asked
    is_timed = bool(asked["cron"] or asked["every"])
    try:
        params = orjson.loads(asked["params"])
    except orjson.JSONDecodeError as error:
        raise CommandError(f"--params is not JSON: {error}") from None
    agent = find_agent(desk.workspace_id, asked["agent"]) if asked["agent"] else None
    made = triggers.create_trigger(
        workspace_id=desk.workspace_id,
        created_by=desk.principal.user,
        name=asked["name"],
        kind="schedule" if is_timed else "webhook",
        workflow=asked["start"],
        agent=agent,
        params=params,
        cron=asked["cron"],
        interval_seconds=asked["every"],
        timezone=asked["timezone"],
        verify=asked["verify"],
    )
    _say(desk, made.trigger, secret=made.secret)


def pause(desk: Desk) -> None:
    """Start nothing until it is resumed."""
    trigger = _trigger(desk)
    triggers.pause(trigger)
    _say(desk, trigger)


def resume(desk: Desk) -> None:
    """Go on from now."""
    trigger = _trigger(desk)
    triggers.resume(trigger)
    _say(desk, trigger)


def remove(desk: Desk) -> None:
    """Remove a trigger and its history."""
    trigger = _trigger(desk)
    delete_row(trigger)
    desk.say(f"{desk.asked['trigger']}  removed")


def history(desk: Desk) -> None:
    """The newest times that it fired, and what came of each."""
    for one in TriggerFiring.objects.filter(trigger=_trigger(desk))[:LISTED]:
        desk.say(
            f"{one.created_at:%Y-%m-%d %H:%M:%S}  {one.outcome}  {one.workflow_id or one.note}",
            outcome=one.outcome,
            workflow_id=one.workflow_id,
            note=one.note,
            created_at=one.created_at,
        )
