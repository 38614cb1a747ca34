"""Starts workflows: for Python callers, REST, pages and commands."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db import transaction

from config.faults import Invalid, NotFound, WorkflowExists
from orchestrator.engine import store
from orchestrator.engine.definition import checked_params, current
from orchestrator.engine.ringing import ring
from orchestrator.engine.store import Begun, NewWorkflow
from orchestrator.models import Workflow
from tenants.access import Principal, authorise
from tenants.ids import uuid7

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,199}")
#: Words that mean something else in an address.
TAKEN = {"definitions", "new"}
MOST_PARAMS = 1024 * 1024


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
) -> tuple[Workflow, bool]:
    """The workflow of this key, and whether it was made now. The same key starts it once."""
    made = current(name)
    id = uuid7()
    if key is not None and (not KEY.fullmatch(key) or key in TAKEN):
        raise Invalid("An id has letters, digits and _.:@- only, at most 200 of them.")
    if not -100 <= priority <= 100:
        raise Invalid("priority is a number from -100 to 100.")
    if made.concurrency and not concurrency_key:
        concurrency_key, concurrency_limit = f"name:{made.name}", made.concurrency
    new = NewWorkflow(
        id=id,
        workspace_id=workspace_id,
        key=key or str(id),
        name=made.name,
        version=made.version,
        params=_sized(checked_params(made, {} if params is None else params, workspace_id)),
        created_by_id=created_by_id,
        priority=priority,
        concurrency_key=concurrency_key,
        concurrency_limit=concurrency_limit or (1 if concurrency_key else None),
        agent_id=agent_id,
    )
    begun = store.start(new) if key_id is None else start_for_key(new, key_id)
    if begun.is_new:
        ring(begun.id)
    row = Workflow.objects.get(pk=begun.id)
    if not begun.is_same and not _asks_again(row, new, made.pinned):
        raise WorkflowExists
    return row, begun.is_new


def _asks_again(row: Workflow, new: NewWorkflow, pinned: frozenset[str]) -> bool:
    """Whether the same was asked for, and only what the server adds has changed meanwhile."""
    kept, wanted = (
        {k: v for k, v in p.items() if k not in pinned} for p in (row.params, new.params)
    )
    return row.name == new.name and bool(kept == wanted)


def start_as(
    principal: Principal, name: str, params: object = None, **manner: Any
) -> tuple[Workflow, bool]:
    """The same in the name of this identity. If it came by a key, the key's budget pays."""
    return start_workflow(
        authorise(principal, "run"),
        name,
        params,
        created_by_id=principal.user_id,
        key_id=principal.key_id,
        **manner,
    )


def start_for_key(new: NewWorkflow, key_id: UUID) -> Begun:
    """Start it and remember whose budget pays, in one commit: no worker sees it without."""
    with transaction.atomic():
        begun = store.start(new)
        if begun.is_new:
            Workflow.objects.filter(pk=begun.id).update(key_id=key_id)
    return begun


def _sized(params: dict[str, Any]) -> dict[str, Any]:
    if len(store.dump(params) or "") > MOST_PARAMS:
        raise Invalid("The params have at most 1 MiB.")
    return params


def run_workflow(
    name: str,
    params: object = None,
    *,
    principal: Principal | None = None,
    workspace_id: UUID | None = None,
    id: str | None = None,
    **manner: Any,
) -> Workflow:
    """Start a workflow and return. A worker runs it; the same `id` starts it once.

    With a principal it is started in that identity's name and workspace; code of this process may
    name the workspace instead.
    """
    if principal:
        return start_as(principal, name, params, key=id, **manner)[0]
    if workspace_id is None:
        raise Invalid("Say who starts it, or in which workspace.")
    return start_workflow(workspace_id, name, params, key=id, **manner)[0]


def find_workflow(principal: Principal, ref: str | UUID, verb: str = "read") -> Workflow:
    """The workflow of this id, the server's or the client's own, if this identity may do that."""
    workspace_id = authorise(principal, verb)  # type: ignore[arg-type]
    rows = Workflow.objects.for_workspace(workspace_id)
    found = None
    with suppress(ValueError):
        found = rows.filter(pk=UUID(str(ref))).first()
    found = found or rows.filter(key=str(ref).replace("\0", "")).first()
    if found is None:
        raise NotFound
    return found
