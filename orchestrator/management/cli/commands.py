"""The commands of `manage.py workflows`: list, start, inspect and control workflows."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any
from uuid import UUID

import orjson
from django.core.management.base import CommandError

from core.db import read
from core.exceptions import NotFound
from orchestrator.consumers import WorkflowLog, frame_of
from orchestrator.engine import approvals, lifecycle
from orchestrator.engine.definition import definitions, description_of
from orchestrator.engine.lifecycle import find_workflow, start_as
from orchestrator.models import Workflow, attempts_of
from sessions_app.live.follow import follow_log
from sessions_app.management.cli.commands import CommandContext

LISTED = 50


def _workflow(context: CommandContext) -> Workflow:
    try:
        return find_workflow(context.principal, context.options["workflow"], "run")
    except NotFound:
        raise CommandError(
            f"There is no workflow {context.options['workflow']} in this workspace."
        ) from None


def _json(text: str, what: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CommandError(f"{what} is not JSON: {error}") from None


def _print(context: CommandContext, workflow: Workflow) -> None:
    workflow.refresh_from_db()
    context.print(f"{workflow.pk}  {workflow.status}", id=workflow.pk, status=workflow.status)


def list_workflows(context: CommandContext) -> None:
    """List the newest workflows, optionally by name or status."""
    rows = Workflow.objects.for_workspace(context.workspace_id)
    if context.options["name"]:
        rows = rows.filter(name=context.options["name"])
    if context.options["status"]:
        rows = rows.filter(status=context.options["status"])
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
        about = description_of(made)
        context.print(f"{made.name}@{made.version}  {about}", name=made.name, version=made.version)


def start(context: CommandContext) -> None:
    """Start a workflow and print its id; the same --id starts it once."""
    made, is_new = start_as(
        context.principal,
        context.options["name"],
        _json(context.options["params"], "--params"),
        key=context.options["id"],
    )
    context.print(str(made.pk), id=made.pk, created=is_new, status=made.status)


def status(context: CommandContext) -> None:
    """Show the state of a workflow, step by step."""
    workflow = _workflow(context)
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
    workflow, after = _workflow(context), context.options["after"]
    if context.options["follow"]:
        asyncio.run(_follow(context, workflow.pk, after))
        return
    for event in workflow.events.after(after):
        _print_event(context, frame_of(event))


async def _follow(context: CommandContext, workflow_id: UUID, after: int) -> None:
    async with aclosing(follow_log(WorkflowLog(workflow_id=workflow_id), after=after)) as coming:
        async for found in coming:
            for frame in found:
                _print_event(context, orjson.loads(frame.text))
                after = frame.seq or after
            if await read(_has_ended, workflow_id, after):
                return


def _has_ended(workflow_id: UUID, seq: int) -> bool:
    """Return whether the workflow is over and its whole log was printed."""
    return Workflow.objects.over().filter(pk=workflow_id, last_seq__lte=seq).exists()


def _print_event(context: CommandContext, frame: dict[str, Any]) -> None:
    facts = {
        name: value for name, value in frame.items() if name not in {"type", "seq", "metadata"}
    }
    text = "  ".join(f"{name}={value}" for name, value in facts.items() if value is not None)
    context.print(f"{frame['seq']:>5}  {frame['type']:<8}  {text}", **frame)


def send(context: CommandContext) -> None:
    """Send an event to a workflow."""
    payload = _json(context.options["payload"], "--payload")
    seq = lifecycle.send_event(_workflow(context), context.options["type"], payload)
    context.print(str(seq), seq=seq)


def approve(context: CommandContext) -> None:
    """Approve the step that waits for a person."""
    workflow = _workflow(context)
    approvals.answer_approval(workflow, context.principal, allow=True, note=context.options["note"])
    _print(context, workflow)


def reject(context: CommandContext) -> None:
    """Reject the step that waits for a person."""
    workflow = _workflow(context)
    approvals.answer_approval(
        workflow, context.principal, allow=False, note=context.options["note"]
    )
    _print(context, workflow)


def pause(context: CommandContext) -> None:
    """Let the running step finish and begin nothing new."""
    workflow = _workflow(context)
    lifecycle.pause(workflow)
    _print(context, workflow)


def resume(context: CommandContext) -> None:
    """Continue a paused workflow."""
    workflow = _workflow(context)
    lifecycle.resume(workflow)
    _print(context, workflow)


def terminate(context: CommandContext) -> None:
    """End a workflow now; with --rollback, undo what it did."""
    workflow = _workflow(context)
    lifecycle.terminate(workflow, rollback=context.options["rollback"])
    _print(context, workflow)


def restart(context: CommandContext) -> None:
    """Restart a workflow, or continue from a step."""
    workflow = _workflow(context)
    lifecycle.restart(workflow, from_step=context.options["from_step"], nth=context.options["nth"])
    _print(context, workflow)
