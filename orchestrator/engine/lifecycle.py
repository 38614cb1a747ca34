"""Starts, finds and controls workflows, for Python callers, REST, pages and commands."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction
from django.db.models import Q

from core.channel_layer import watched
from core.db import release_connection
from core.exceptions import Conflict, Invalid, NotFound
from core.ids import uuid7
from orchestrator.engine import approvals, store
from orchestrator.engine.definition import Workflow as Definition
from orchestrator.engine.definition import check_event_type, latest_version, validate_params
from orchestrator.engine.publisher import notify_viewers, workflow_group
from orchestrator.engine.store import NewWorkflow, row, rows, to_json
from orchestrator.engine.waits import REQUIRES_ACTION, end_of_turn, starting_position
from orchestrator.exceptions import WorkflowEnded, WorkflowExists
from orchestrator.models import Step, Workflow
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import FINISHED
from sessions_app.models import Run
from sessions_app.sessions import cancel_run
from tenants.access import Principal, authorise

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,199}")
#: Words that have another meaning in a URL.
RESERVED_KEYS = {"definitions", "new"}
MAX_PARAMS = MAX_PAYLOAD = 1024 * 1024
MAX_EVENTS = 1_000
#: A notification may be lost; a waiter looks again after this time.
POLL_SECONDS = 2.0

# ── Starting and finding ─────────────────────────────────────────────────────────────────────────


def start_workflow(
    workspace_id: UUID,
    name: str,
    params: object = None,
    *,
    key: str | None = None,
    created_by_id: UUID | None = None,
    agent_id: UUID | None = None,
    priority: int = 0,
    concurrency_key: str = "",
    concurrency_limit: int | None = None,
    key_id: UUID | None = None,
    id: UUID | None = None,
) -> tuple[Workflow, bool]:
    """Return the workflow of this key, and whether it is new. The same key starts it once.

    A caller that prepares something for the workflow chooses its `id`.
    """
    made = latest_version(name)
    return start_prepared(
        workspace_id,
        made,
        validate_params(made, {} if params is None else params, workspace_id),
        key=key,
        created_by_id=created_by_id,
        agent_id=agent_id,
        priority=priority,
        concurrency_key=concurrency_key,
        concurrency_limit=concurrency_limit,
        key_id=key_id,
        id=id,
    )


def start_prepared(
    workspace_id: UUID,
    made: type[Definition],
    params: dict[str, Any],
    *,
    key: str | None = None,
    created_by_id: UUID | None = None,
    agent_id: UUID | None = None,
    priority: int = 0,
    concurrency_key: str = "",
    concurrency_limit: int | None = None,
    key_id: UUID | None = None,
    id: UUID | None = None,
) -> tuple[Workflow, bool]:
    """Start a workflow with params that were admitted already, as `start_workflow` does."""
    id = id or uuid7()
    if key is not None and (not KEY.fullmatch(key) or key in RESERVED_KEYS):
        raise Invalid("An id has at most 200 characters: letters, digits and _.:@- only.")
    if not -100 <= priority <= 100:
        raise Invalid("priority is a number from -100 to 100.")
    if made.concurrency and not concurrency_key:
        concurrency_key, concurrency_limit = f"name:{made.name}", made.concurrency
    if len(store.to_json(params) or "") > MAX_PARAMS:
        raise Invalid("The params may have at most 1 MiB.")
    new = NewWorkflow(
        id=id,
        workspace_id=workspace_id,
        key=key or str(id),
        name=made.name,
        version=made.version,
        params=params,
        created_by_id=created_by_id,
        priority=priority,
        concurrency_key=concurrency_key,
        concurrency_limit=concurrency_limit or (1 if concurrency_key else None),
        agent_id=agent_id,
        key_id=key_id,
    )
    started = store.start(new)
    if started.is_new:
        notify_viewers([started.id])
    workflow = Workflow.objects.get(pk=started.id)
    if not started.is_same and not _is_same_request(workflow, new, made.pinned):
        raise WorkflowExists
    return workflow, started.is_new


def _is_same_request(workflow: Workflow, new: NewWorkflow, pinned: frozenset[str]) -> bool:
    """Return whether only params that the server sets differ from the first request."""
    first, second = (
        {name: value for name, value in params.items() if name not in pinned}
        for params in (workflow.params, new.params)
    )
    return workflow.name == new.name and bool(first == second)


def start_as(
    principal: Principal, name: str, params: object = None, **options: Any
) -> tuple[Workflow, bool]:
    """Start a workflow in the name of a principal. If it has an API key, the key's budget pays."""
    return start_workflow(
        authorise(principal, "run"),
        name,
        params,
        created_by_id=principal.user_id,
        key_id=principal.key_id,
        **options,
    )


def run_workflow(
    name: str,
    params: object = None,
    *,
    principal: Principal | None = None,
    workspace_id: UUID | None = None,
    id: str | None = None,
    **options: Any,
) -> Workflow:
    """Start a workflow and return it. A worker runs it; the same `id` starts it once.

    With a principal it is started in that identity's name and workspace; code of this process may
    name the workspace instead.
    """
    if principal:
        return start_as(principal, name, params, key=id, **options)[0]
    if workspace_id is None:
        raise Invalid("Pass a principal or a workspace_id.")
    return start_workflow(workspace_id, name, params, key=id, **options)[0]


def find_workflow(principal: Principal, ref: str | UUID, verb: str = "read") -> Workflow:
    """Return the workflow with this id, the server's or the client's, if the principal may `verb`."""
    workspace_id = authorise(principal, verb)  # type: ignore[arg-type]
    workflows = Workflow.objects.for_workspace(workspace_id)
    found = None
    with suppress(ValueError):
        found = workflows.filter(pk=UUID(str(ref))).first()
    found = found or workflows.filter(key=str(ref).replace("\0", "")).first()
    if found is None:
        raise NotFound
    return found


def wait_for_workflow(workflow_id: UUID, seconds: float) -> Workflow:
    """Return the workflow when it is over, or as it is when the time is up."""
    return async_to_sync(_await)(workflow_id, seconds)


async def _await(workflow_id: UUID, seconds: float) -> Workflow:
    found = await _read(workflow_id)
    if found.is_over or seconds <= 0:
        return found
    return await watched(
        workflow_group(workflow_id),
        partial(_read, workflow_id),
        is_over=lambda found: found.is_over,
        seconds=seconds,
        every=POLL_SECONDS,
    )


@sync_to_async
def _read(workflow_id: UUID) -> Workflow:
    found = Workflow.objects.get(pk=workflow_id)
    release_connection()
    return found


# ── Control ──────────────────────────────────────────────────────────────────────────────────────

STOP = "SELECT workflow_stop(%s, 'terminated', %s::jsonb, %s, NULL)"
HALT = "SELECT workflow_stop(%s, 'paused', NULL, 'restarting', NULL)"


def pause(workflow: Workflow) -> None:
    """Let the running step finish and begin nothing new. Timers stand still."""
    rows("SELECT workflow_pause(%s)", [workflow.pk])
    notify_viewers([workflow.pk])


def resume(workflow: Workflow) -> None:
    """Continue. Every timer continues with the time that it had left."""
    rows("SELECT workflow_resume(%s)", [workflow.pk])
    notify_viewers([workflow.pk])


def terminate(workflow: Workflow, *, rollback: bool = False, author_id: UUID | None = None) -> None:
    """End the workflow now, with its children and its agents' turns; optionally roll it back."""
    error = {"code": "terminated", "message": "The workflow was terminated."}
    with transaction.atomic():
        if rollback:
            why = to_json({"becomes": Workflow.Status.TERMINATED, "error": error})
            (done,) = row("SELECT workflow_stop_undoing(%s, %s::jsonb)", [workflow.pk, why])
        else:
            (done,) = row(STOP, [workflow.pk, to_json(error), None])
        if not done:
            raise WorkflowEnded
        approvals.announce_closed(workflow.pk)
    stop_started_work(workflow, author_id)
    notify_viewers([workflow.pk])


def restart(
    workflow: Workflow, *, from_step: str = "", nth: int = 1, author_id: UUID | None = None
) -> None:
    """Restart with the latest code, or from a step with the results of those before it."""
    position = 0
    version = workflow.version
    if from_step:
        steps = Step.objects.filter(workflow=workflow).exclude(kind=Step.Kind.ROLLBACK)
        found = steps.filter(name=from_step, nth=nth).first()
        if found is None:
            raise NotFound(f"This workflow has not reached a step {from_step!r} (use {nth}).")
        position = found.position
    else:
        version = latest_version(workflow.name).version
    # It must not continue while what it waits for is stopped, nor take that stop for an answer.
    row(HALT, [workflow.pk])
    stop_started_work(workflow, author_id, from_position=position)
    with transaction.atomic():
        approvals.announce_closed(workflow.pk)
        rows("SELECT workflow_restart(%s, %s, %s)", [workflow.pk, position, version])
    notify_viewers([workflow.pk])


def send_event(
    workflow: Workflow, type: str, payload: object, *, author_id: UUID | None = None
) -> int:
    """Put an event into the inbox. One step takes it; one that comes early waits there."""
    check_event_type(type)
    try:
        packed = orjson.dumps(payload)
    except TypeError:
        raise Invalid("The payload is not JSON.") from None
    if len(packed) > MAX_PAYLOAD:
        raise Invalid("The payload of an event may have at most 1 MiB.")
    (seq,) = row(
        "SELECT workflow_signal(%s, %s, %s, %s, %s)",
        [workflow.pk, type, packed.decode(), author_id, MAX_EVENTS],
    )
    notify_viewers([workflow.pk])
    return int(seq)


def stop_started_work(
    workflow: Workflow,
    author_id: UUID | None,
    *,
    from_position: int = 0,
    only_awaited: bool = False,
) -> None:
    """Stop the agents' turns and children that the workflow started, each in its own commit.

    With `only_awaited`, children that no step waits for continue.
    """
    steps = Step.objects.filter(workflow=workflow, position__gte=from_position)
    children = Workflow.objects.filter(parent=workflow).exclude(status__in=Workflow.OVER)
    if only_awaited:
        steps = steps.filter(status=Step.Status.WAITING)
        children = children.filter(pk__in=steps.filter(child_id__isnull=False).values("child_id"))
    run_ids = [run_id for run_id in steps.values_list("run_id", flat=True) if run_id]
    open_runs = ~Q(status__in=FINISHED) | Q(stop_reason=REQUIRES_ACTION)
    for run in Run.objects.filter(open_runs, pk__in=run_ids):
        _stop_turn(run, author_id)
    for child in children:
        if starting_position(child) >= from_position:
            with suppress(WorkflowEnded):
                terminate(child, author_id=author_id)


def _stop_turn(run: Run, author_id: UUID | None) -> None:
    """Stop the turn that this run began, unless the turn is over."""
    try:
        if run.status not in FINISHED:
            cancel_run(run, author_id)
        elif end_of_turn(run.pk) is None:
            run_queue.stop(run.session_id, note="cancelled", author_id=author_id)
    except Conflict:
        return  # it ended by itself meanwhile
