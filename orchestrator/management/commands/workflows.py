"""Lists, starts and controls workflows and their triggers. The docstring of a command is its help."""

from __future__ import annotations

import asyncio
import json
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from django.core.management.base import CommandError, CommandParser

from agents.definitions import find_agent
from core.db import delete_row, read
from core.exceptions import NotFound
from orchestrator import triggers
from orchestrator.consumers import WorkflowLog, frame_of
from orchestrator.engine import approvals, lifecycle
from orchestrator.engine.definition import definitions
from orchestrator.models import TriggerFiring, Workflow, WorkflowTrigger, attempts_of
from sessions_app.live.hub import follow_log
from sessions_app.management.cli import CommandContext, Commands, at_least_one, fail
from sessions_app.management.commands.agent import Command as AgentCommand
from sessions_app.schedules import timing

LISTED = 50


class Command(AgentCommand):
    help = "List, start and control workflows."

    def add_arguments(self, parser: CommandParser) -> None:
        # Django creates this parser; it reports what none of the commands below accepts.
        parser.error = partial(fail, parser)  # type: ignore[method-assign]
        commands = Commands(parser, "command")
        listing = commands.add("list", list_workflows)
        listing.add_argument("--name", help="only this workflow")
        listing.add_argument("--status", choices=Workflow.Status.values)
        commands.add("definitions", list_definitions)
        starting = commands.add("start", start)
        starting.add_argument("name", help="a registered workflow")
        starting.add_argument("--params", default="{}", help="a JSON object")
        starting.add_argument("--id", help="your own id for it; the same id starts it once")
        add_workflow_commands(commands)
        add_trigger_commands(commands.group("triggers", "Times and webhooks that start workflows."))


def add_workflow_commands(commands: Commands) -> None:
    """Add the commands about one workflow."""

    def add(act: Callable[[CommandContext], None]) -> ArgumentParser:
        parser = commands.add(act.__name__, act)
        parser.add_argument("workflow", help="its id, or the id that you gave it")
        return parser

    add(status)
    log = add(events)
    log.add_argument("--after", type=int, default=0, help="start after this seq")
    log.add_argument("--follow", action="store_true", help="continue until it is over")
    sending = add(send)
    sending.add_argument("--type", required=True)
    sending.add_argument("--payload", default="null", help="any JSON")
    add(approve).add_argument("--note", default="")
    add(reject).add_argument("--note", default="")
    add(pause)
    add(resume)
    add(terminate).add_argument("--rollback", action="store_true", help="undo what it did")
    restarting = add(restart)
    restarting.add_argument("--from-step", default="", help="keep the results before this step")
    restarting.add_argument("--nth", type=at_least_one, default=1, help="which use of that name")


def add_trigger_commands(commands: Commands) -> None:
    commands.add("list", list_triggers)
    adding = commands.add("add", add_trigger)
    adding.add_argument("name", help="its name")
    adding.add_argument("--start", default="canvas", help="a registered workflow")
    adding.add_argument("--agent", help="the agent whose canvas to run, by name or id")
    adding.add_argument(
        "--params", default="{}", help="a JSON object; {{input}} stands for the message"
    )
    adding.add_argument("--cron", default="", help="a cron expression, such as '0 9 * * 1-5'")
    adding.add_argument("--every", type=at_least_one, help="an interval in seconds")
    adding.add_argument("--timezone", default="UTC")
    adding.add_argument("--verify", choices=WorkflowTrigger.Verify.values, default="signature")
    acts = {"pause": pause_trigger, "resume": resume_trigger}
    acts |= {"remove": remove_trigger, "history": list_firings}
    for name, act in acts.items():
        commands.add(name, act).add_argument("trigger", help="its id or name")


def read_json(context: CommandContext, option: str) -> Any:
    try:
        return orjson.loads(context.options[option])
    except orjson.JSONDecodeError as error:
        raise CommandError(f"--{option} is not JSON: {error}") from None


# ── Workflows ────────────────────────────────────────────────────────────────────────────────────


def list_workflows(context: CommandContext) -> None:
    """List the newest workflows, optionally by name or status."""
    given = {name: context.options[name] for name in ("name", "status")}
    rows = Workflow.objects.for_workspace(context.workspace_id)
    rows = rows.filter(**{name: value for name, value in given.items() if value})
    for workflow in rows.order_by("-created_at")[:LISTED]:
        message = (workflow.progress or {}).get("message", "")
        context.print(
            f"{workflow.pk}  {workflow.status:<16}  {workflow.name}  {message}".rstrip(),
            id=workflow.pk,
            key=workflow.key,
            name=workflow.name,
            status=workflow.status,
            created_at=workflow.created_at,
        )


def list_definitions(context: CommandContext) -> None:
    """List the workflows that can be started."""
    for made in definitions():
        text = f"{made.name}@{made.version}  {made.description()}"
        context.print(text, name=made.name, version=made.version)


def start(context: CommandContext) -> None:
    """Start a workflow and print its id; the same --id starts it once."""
    name, key, params = context.options["name"], context.options["id"], read_json(context, "params")
    made, is_new = lifecycle.start_as(context.principal, name, params, key=key)
    context.print(str(made.pk), id=made.pk, created=is_new, status=made.status)


def find_workflow(context: CommandContext) -> Workflow:
    ref = context.options["workflow"]
    try:
        return lifecycle.find_workflow(context.principal, ref, "run")
    except NotFound:
        raise CommandError(f"There is no workflow {ref} in this workspace.") from None


def status(context: CommandContext) -> None:
    """Show the state of a workflow, step by step."""
    workflow = find_workflow(context)
    steps = list(workflow.steps.order_by("position").prefetch_related("failures"))
    lines = [f"{workflow.name}  {workflow.status}"]
    if workflow.error:
        lines.append(f"error: {workflow.error.get('message', '')}")
    lines += [f"  {step}  {step.status}  attempts: {step.attempts}" for step in steps]
    if workflow.result is not None:
        lines.append(f"result: {json.dumps(workflow.output, ensure_ascii=False)}")
    context.print(
        "\n".join(lines),
        id=workflow.pk,
        name=workflow.name,
        status=workflow.status,
        error=workflow.error,
        progress=workflow.progress,
        result=workflow.output,
        steps=[
            {"name": step.name, "nth": step.nth, "status": step.status, "attempts": step.attempts}
            | {"failed": [attempt.status for attempt in attempts_of(step) if attempt.error]}
            for step in steps
        ],
    )


def events(context: CommandContext) -> None:
    """Show the log of a workflow; with --follow, until it is over or Ctrl-C."""
    workflow, after = find_workflow(context), context.options["after"]
    if context.options["follow"]:
        asyncio.run(_follow(context, workflow.pk, after))
        return
    for event in workflow.events.after(after):
        _print_event(context, frame_of(event))


async def _follow(context: CommandContext, workflow_id: UUID, after: int) -> None:
    async with aclosing(follow_log(WorkflowLog(workflow_id=workflow_id), after=after)) as pages:
        async for page in pages:
            for frame in page:
                _print_event(context, orjson.loads(frame.text))
                after = frame.seq or after
            if await read(_has_ended, workflow_id, after):
                return


def _has_ended(workflow_id: UUID, seq: int) -> bool:
    """Return whether the workflow is over and its whole log was printed."""
    return Workflow.objects.over().filter(pk=workflow_id, last_seq__lte=seq).exists()


def _print_event(context: CommandContext, frame: dict[str, Any]) -> None:
    facts = [
        f"{name}={value}"
        for name, value in frame.items()
        if name not in {"type", "seq", "metadata"} and value is not None
    ]
    context.print(f"{frame['seq']:>5}  {frame['type']:<8}  {'  '.join(facts)}", **frame)


def send(context: CommandContext) -> None:
    """Send an event to a workflow."""
    payload = read_json(context, "payload")
    seq = lifecycle.send_event(find_workflow(context), context.options["type"], payload)
    context.print(str(seq), seq=seq)


def approve(context: CommandContext) -> None:
    """Approve the step that waits for a person."""
    _answer(context, allow=True)


def reject(context: CommandContext) -> None:
    """Reject the step that waits for a person."""
    _answer(context, allow=False)


def _answer(context: CommandContext, *, allow: bool) -> None:
    note = context.options["note"]
    _control(
        context,
        lambda found: approvals.answer_approval(found, context.principal, allow=allow, note=note),
    )


def pause(context: CommandContext) -> None:
    """Let the running step finish and begin nothing new."""
    _control(context, lifecycle.pause)


def resume(context: CommandContext) -> None:
    """Continue a paused workflow."""
    _control(context, lifecycle.resume)


def terminate(context: CommandContext) -> None:
    """End a workflow now; with --rollback, undo what it did."""
    _control(context, partial(lifecycle.terminate, rollback=context.options["rollback"]))


def restart(context: CommandContext) -> None:
    """Restart a workflow, or continue from a step."""
    options = {name: context.options[name] for name in ("from_step", "nth")}
    _control(context, partial(lifecycle.restart, **options))


def _control(context: CommandContext, act: Callable[[Workflow], object]) -> None:
    """Do this with the workflow, and print what became of it."""
    workflow = find_workflow(context)
    act(workflow)
    workflow.refresh_from_db()
    context.print(f"{workflow.pk}  {workflow.status}", id=workflow.pk, status=workflow.status)


# ── Triggers ─────────────────────────────────────────────────────────────────────────────────────


def list_triggers(context: CommandContext) -> None:
    """List the triggers of the workspace."""
    for trigger in WorkflowTrigger.objects.for_workspace(context.workspace_id):
        _print_trigger(context, trigger)


def _print_trigger(context: CommandContext, trigger: WorkflowTrigger, **more: object) -> None:
    when = trigger.path or trigger.cron or f"every {trigger.interval_seconds} s"
    state = "paused" if trigger.paused_at else "active"
    secret = f"  secret: {more['secret']}" if more.get("secret") else ""
    context.print(
        f"{trigger.pk}  {state:<6}  {trigger.name}  {trigger.workflow}  {when}{secret}",
        id=trigger.pk,
        name=trigger.name,
        next_at=trigger.next_at,
        kind=trigger.kind,
        workflow=trigger.workflow,
        when=when,
        state=state,
        **more,
    )


def add_trigger(context: CommandContext) -> None:
    """Create a schedule (--cron or --every) or a webhook, whose secret is shown once."""
    options, params = context.options, read_json(context, "params")
    agent = find_agent(context.workspace_id, options["agent"]) if options["agent"] else None
    made = triggers.create_trigger(
        workspace_id=context.workspace_id,
        created_by=context.principal.user,
        name=options["name"],
        kind="schedule" if options["cron"] or options["every"] else "webhook",
        workflow=options["start"],
        agent=agent,
        params=params,
        cron=options["cron"],
        interval_seconds=options["every"],
        timezone=options["timezone"],
        verify=options["verify"],
    )
    _print_trigger(context, made.trigger, secret=made.secret)


def find_trigger(context: CommandContext) -> WorkflowTrigger:
    ref, rows = context.options["trigger"], WorkflowTrigger.objects.for_workspace
    try:
        found = rows(context.workspace_id).filter(pk=UUID(ref)).first()
    except ValueError:
        found = rows(context.workspace_id).filter(name=ref).first()
    if found is None:
        raise CommandError(f"There is no trigger {ref} in this workspace.")
    return found


def pause_trigger(context: CommandContext) -> None:
    """Fire nothing until the trigger is resumed."""
    trigger = find_trigger(context)
    timing.pause(trigger)
    _print_trigger(context, trigger)


def resume_trigger(context: CommandContext) -> None:
    """Continue from now."""
    trigger = find_trigger(context)
    timing.resume(trigger)
    _print_trigger(context, trigger)


def remove_trigger(context: CommandContext) -> None:
    """Remove a trigger and its history."""
    delete_row(find_trigger(context))
    context.print(f"{context.options['trigger']}  removed")


def list_firings(context: CommandContext) -> None:
    """List the newest firings of a trigger, with the outcome of each."""
    for firing in TriggerFiring.objects.filter(trigger=find_trigger(context))[:LISTED]:
        result = firing.workflow_id or firing.note
        context.print(
            f"{firing.created_at:%Y-%m-%d %H:%M:%S}  {firing.outcome}  {result}",
            outcome=firing.outcome,
            workflow_id=firing.workflow_id,
            note=firing.note,
            created_at=firing.created_at,
        )
