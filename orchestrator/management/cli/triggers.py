"""The commands of `manage.py workflows triggers`."""

from __future__ import annotations

from uuid import UUID

import orjson
from django.core.management.base import CommandError

from agents.definitions import find_agent
from core.db import delete_row
from orchestrator import triggers
from orchestrator.models import TriggerFiring, WorkflowTrigger
from sessions_app.management.cli import CommandContext

LISTED = 50


def _trigger(context: CommandContext) -> WorkflowTrigger:
    rows = WorkflowTrigger.objects.for_workspace(context.workspace_id)
    try:
        found = rows.filter(pk=UUID(context.options["trigger"])).first()
    except ValueError:
        found = rows.filter(name=context.options["trigger"]).first()
    if found is None:
        raise CommandError(f"There is no trigger {context.options['trigger']} in this workspace.")
    return found


def _print(context: CommandContext, trigger: WorkflowTrigger, **more: object) -> None:
    when = trigger.path or trigger.cron or f"every {trigger.interval_seconds} s"
    state = "paused" if trigger.paused_at else "active"
    facts = {"kind": trigger.kind, "workflow": trigger.workflow, "when": when, "state": state}
    secret = f"  secret: {more['secret']}" if more.get("secret") else ""
    context.print(
        f"{trigger.pk}  {state:<6}  {trigger.name}  {trigger.workflow}  {when}{secret}",
        id=trigger.pk,
        name=trigger.name,
        next_at=trigger.next_at,
        **facts,
        **more,
    )


def list_triggers(context: CommandContext) -> None:
    """List the triggers of the workspace."""
    for trigger in WorkflowTrigger.objects.for_workspace(context.workspace_id):
        _print(context, trigger)


def add(context: CommandContext) -> None:
    """Create a schedule (--cron or --every) or a webhook, whose secret is shown once."""
    options = context.options
    is_timed = bool(options["cron"] or options["every"])
    try:
        params = orjson.loads(options["params"])
    except orjson.JSONDecodeError as error:
        raise CommandError(f"--params is not JSON: {error}") from None
    agent = find_agent(context.workspace_id, options["agent"]) if options["agent"] else None
    made = triggers.create_trigger(
        workspace_id=context.workspace_id,
        created_by=context.principal.user,
        name=options["name"],
        kind="schedule" if is_timed else "webhook",
        workflow=options["start"],
        agent=agent,
        params=params,
        cron=options["cron"],
        interval_seconds=options["every"],
        timezone=options["timezone"],
        verify=options["verify"],
    )
    _print(context, made.trigger, secret=made.secret)


def pause(context: CommandContext) -> None:
    """Fire nothing until the trigger is resumed."""
    trigger = _trigger(context)
    triggers.pause(trigger)
    _print(context, trigger)


def resume(context: CommandContext) -> None:
    """Continue from now."""
    trigger = _trigger(context)
    triggers.resume(trigger)
    _print(context, trigger)


def remove(context: CommandContext) -> None:
    """Remove a trigger and its history."""
    trigger = _trigger(context)
    delete_row(trigger)
    context.print(f"{context.options['trigger']}  removed")


def history(context: CommandContext) -> None:
    """List the newest firings of a trigger, with the outcome of each."""
    for trigger in TriggerFiring.objects.filter(trigger=_trigger(context))[:LISTED]:
        context.print(
            f"{trigger.created_at:%Y-%m-%d %H:%M:%S}  {trigger.outcome}  {trigger.workflow_id or trigger.note}",
            outcome=trigger.outcome,
            workflow_id=trigger.workflow_id,
            note=trigger.note,
            created_at=trigger.created_at,
        )
