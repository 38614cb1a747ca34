"""`workflows …`: everything that a workflow can be told or asked."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any
from uuid import UUID

import orjson
from django.core.management.base import CommandError

from config.faults import NotFound
from orchestrator import gates, lifecycle
from orchestrator.engine.attempts import attempts_of
from orchestrator.engine.definition import definitions, description_of
from orchestrator.engine.starting import find_workflow, start_as
from orchestrator.models import Workflow
from orchestrator.streams import WorkflowLog, frame_of
from sessions_app.cli.desk import Desk
from sessions_app.following import frames
from tenants.off_loop import read

LISTED = 50


def _workflow(desk: Desk) -> Workflow:
    try:
        return find_workflow(desk.principal, desk.asked["workflow"], "run")
    except NotFound:
        raise CommandError(f"There is no workflow {desk.asked['workflow']} here.") from None


def _json(text: str, what: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CommandError(f"{what} is not JSON: {error}") from None


def _say(desk: Desk, workflow: Workflow) -> None:
    workflow.refresh_from_db()
    desk.say(f"{workflow.pk}  {workflow.status}", id=workflow.pk, status=workflow.status)


def list_workflows(desk: Desk) -> None:
    """The newest workflows, narrowed by name or status."""
    rows = Workflow.objects.for_workspace(desk.workspace_id)
    if desk.asked["name"]:
        rows = rows.filter(name=desk.asked["name"])
    if desk.asked["status"]:
        rows = rows.filter(status=desk.asked["status"])
    for one in rows.order_by("-created_at")[:LISTED]:
        said = (one.progress or {}).get("message", "")
        desk.say(
            f"{one.pk}  {one.status:<16}  {one.name}  {said}".rstrip(),
            id=one.pk,
            key=one.key,
            name=one.name,
            status=one.status,
            created_at=one.created_at,
        )


def list_definitions(desk: Desk) -> None:
    """The workflows that can be started."""
    for made in definitions():
        about = description_of(made)
        desk.say(f"{made.name}@{made.version}  {about}", name=made.name, version=made.version)


def start(desk: Desk) -> None:
    """Start a workflow and say its id; the same --id starts it once."""
    made, is_new = start_as(
        desk.principal,
        desk.asked["name"],
        _json(desk.asked["params"], "--params"),
        key=desk.asked["id"],
    )
    desk.say(str(made.pk), id=made.pk, created=is_new, status=made.status)


def status(desk: Desk) -> None:
    """Where it stands, step by step."""
    workflow = _workflow(desk)
    steps = list(workflow.steps.order_by("position").prefetch_related("failures"))
    lines = [f"{workflow.name}  {workflow.status}"]
    if workflow.error:
        lines.append(f"error: {workflow.error.get('message', '')}")
    lines += [f"  {step}  {step.status}  attempts: {step.attempts}" for step in steps]
    if workflow.result is not None:
        lines.append(f"result: {json.dumps(workflow.output, ensure_ascii=False)}")
    desk.say(
        "\n".join(lines),
        id=workflow.pk,
        name=workflow.name,
        status=workflow.status,
        error=workflow.error,
        progress=workflow.progress,
        result=workflow.output,
        steps=[
            {"name": step.name, "nth": step.nth, "status": step.status, "attempts": step.attempts}
            | {"failed": [one.status for one in attempts_of(step) if one.error]}
            for step in steps
        ],
    )


def events(desk: Desk) -> None:
    """What happened to it; with --follow, until it is over or Ctrl-C."""
    workflow, after = _workflow(desk), desk.asked["after"]
    if desk.asked["follow"]:
        asyncio.run(_follow(desk, workflow.pk, after))
        return
    for event in workflow.events.after(after):
        _tell(desk, frame_of(event))


async def _follow(desk: Desk, workflow_id: UUID, after: int) -> None:
    async with aclosing(frames(WorkflowLog(workflow_id=workflow_id), after=after)) as coming:
        async for found in coming:
            for frame in found:
                _tell(desk, orjson.loads(frame.text))
                after = frame.seq or after
            if await read(_has_ended, workflow_id, after):
                return


def _has_ended(workflow_id: UUID, told: int) -> bool:
    """It is over, and all of its log was told: one that was restarted has been over before."""
    return Workflow.objects.over().filter(pk=workflow_id, last_seq__lte=told).exists()


def _tell(desk: Desk, frame: dict[str, Any]) -> None:
    facts = {
        name: value for name, value in frame.items() if name not in {"type", "seq", "metadata"}
    }
    said = "  ".join(f"{name}={value}" for name, value in facts.items() if value is not None)
    desk.say(f"{frame['seq']:>5}  {frame['type']:<8}  {said}", **frame)


def send(desk: Desk) -> None:
    """Send it an event."""
    payload = _json(desk.asked["payload"], "--payload")
    seq = lifecycle.send_event(_workflow(desk), desk.asked["type"], payload)
    desk.say(str(seq), seq=seq)


def approve(desk: Desk) -> None:
    """Say yes to the step that waits for a person."""
    workflow = _workflow(desk)
    gates.answer_gate(workflow, desk.principal, allow=True, note=desk.asked["note"])
    _say(desk, workflow)


def reject(desk: Desk) -> None:
    """Say no to the step that waits for a person."""
    workflow = _workflow(desk)
    gates.answer_gate(workflow, desk.principal, allow=False, note=desk.asked["note"])
    _say(desk, workflow)


def pause(desk: Desk) -> None:
    """Let the running step finish and begin nothing new."""
    workflow = _workflow(desk)
    lifecycle.pause(workflow)
    _say(desk, workflow)


def resume(desk: Desk) -> None:
    """Go on."""
    workflow = _workflow(desk)
    lifecycle.resume(workflow)
    _say(desk, workflow)


def terminate(desk: Desk) -> None:
    """End it now; with --rollback, undo what it did."""
    workflow = _workflow(desk)
    lifecycle.terminate(workflow, rollback=desk.asked["rollback"])
    _say(desk, workflow)


def restart(desk: Desk) -> None:
    """Begin anew, or from a step."""
    workflow = _workflow(desk)
    lifecycle.restart(workflow, from_step=desk.asked["from_step"], nth=desk.asked["nth"])
    _say(desk, workflow)
