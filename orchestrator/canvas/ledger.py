"""The ledger of what canvases call: written before a tool runs, as for every other call.

A call that was started and whose end nobody saw is made again only where that is harmless;
otherwise it is `unknown`, and a person says what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from django.db import transaction
from django.utils import timezone

from config.faults import CallUnknown, NonRetryableError
from orchestrator.engine.statements import row, rows
from orchestrator.engine.store import Claimed
from sessions_app.models import Session, ToolExecution
from sessions_app.statements import patiently
from tools_app.clip import storable, storable_json
from tools_app.effective import EffectivePolicy
from tools_app.policy import Decision
from tools_app.registry import Tool

State = ToolExecution.State
FENCE = "SELECT (workflow_lock(%s, %s)).epoch"
#: Started for a workflow that is over since, by a worker that never came back to say how it ended.
LEFT_OPEN = """
UPDATE tool_executions t SET state = 'unknown', error = %s, finished_at = clock_timestamp()
  FROM workflows w WHERE w.id = t.workflow_id AND t.state = 'running'
   AND w.finished_at < clock_timestamp() - make_interval(secs => %s) RETURNING t.id
"""
#: A body that was told to stop has so long to say what it did.
LEAVE_SECONDS = 60.0


def fence(held: Claimed) -> None:
    """Hold the workflow until the commit. What a lost worker would still write is refused."""
    row(FENCE, [held.id, held.epoch])


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A call that is to be made."""

    held: Claimed
    session: Session
    #: The same for every attempt at it.
    call_id: str
    tool: Tool
    input: Mapping[str, Any]
    policy: EffectivePolicy
    decided: Decision

    def row(self) -> ToolExecution:
        return ToolExecution(
            workspace_id=self.held.workspace_id,
            created_by_id=self.held.created_by_id,
            session=self.session,
            workflow_id=self.held.id,
            tool_use_id=self.call_id,
            name=self.tool.name[:160],
            input=storable_json(dict(self.input)),
            ownership=self.tool.ownership,
            decision=self.decided.decision,
            decided_by=self.decided.decided_by[:200],
            read_only=self.tool.read_only,
            idempotent=self.tool.idempotent,
        )


def begin(planned: Planned, attempt: int) -> ToolExecution:
    """The call's row: `running` when it is to be made now, otherwise what is known of it already."""
    with transaction.atomic():
        fence(planned.held)
        rows_ = ToolExecution.objects.filter(session=planned.session, tool_use_id=planned.call_id)
        known = rows_.first()
        call = known or planned.row()
        is_open = known is None or known.state == State.RUNNING
        if attempt > 1 and not (call.read_only or call.idempotent):
            if is_open:
                call.state, call.error = State.UNKNOWN, CallUnknown().detail
                call.finished_at = timezone.now()
        elif call.state != State.COMPLETED:
            call.state, call.error, call.output = State.RUNNING, "", None
            call.started_at, call.finished_at = timezone.now(), None
            call.attempts = attempt
        call.save()
    return call


def refuse(planned: Planned, state: str, error: str) -> None:
    """A call that is not made at all, and why."""
    call = planned.row()
    call.state, call.error, call.finished_at = state, error, timezone.now()
    ToolExecution.objects.bulk_create([call], ignore_conflicts=True)


def outcome_of(call: ToolExecution) -> Any:
    """What a call that is not to be made again came to, the first time."""
    if call.state == State.COMPLETED:
        return call.output
    if call.state == State.UNKNOWN:
        raise CallUnknown(call.error)
    raise NonRetryableError(call.error)


def end(
    call: ToolExecution,
    state: str,
    *,
    also: Callable[[], None],
    output: Any = None,
    error: str = "",
) -> None:
    """Write how this attempt ended, also when another holds the workflow by now: it is so.

    What `also` writes is one commit with it.
    """
    begun = ToolExecution.objects.filter(pk=call.pk, state=State.RUNNING, attempts=call.attempts)
    outcome = {"state": state, "output": _kept(output), "error": storable(error)}

    def write(_: bool) -> None:
        with transaction.atomic():
            if begun.update(**outcome, finished_at=timezone.now()):
                also()

    patiently(write)


def _kept(output: Any) -> Any:
    """As JSON. What cannot be written as such is the step's error, and not lost on the ledger's."""
    try:
        return storable_json(orjson.loads(orjson.dumps(output)))
    except TypeError:
        return None


def close_left_open() -> int:
    """End the calls that nobody will come back to. The supervisor does it."""
    return len(rows(LEFT_OPEN, [CallUnknown().detail, LEAVE_SECONDS]))
