"""The tool ledger: calls are written before they run, so that a crash leaves no doubt unrecorded.

It holds the calls of runs and those of workflows. A run writes under the epoch of its lane, and a
workflow starts a call under its own epoch, so that a worker that lost either writes nothing. A call
that was started and never seen to end becomes `unknown`. It is never repeated by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, date, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from agents.providers.base import ToolCall
from core.exceptions import Conflict, StaleEpoch
from core.ids import uuid7
from core.validation import storable, storable_json
from sessions_app.approvals.approvals import announce, approvals_for
from sessions_app.approvals.tool_calls import result_event, resume
from sessions_app.context.deferred import unwrap
from sessions_app.exceptions import SessionBusy, SessionEnded
from sessions_app.harness.model_call import ModelAnswer, settle_call
from sessions_app.harness.turn import Turn
from sessions_app.log.sql import commit_once, lock_lane, retry_on_disconnect, row, rows
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Approval, Session, SessionEvent, ToolExecution, ToolUseRollup
from tenants.access import Principal, authorise
from tools_app.exceptions import ToolFailed
from tools_app.policy.evaluation import Decision
from tools_app.registry import Tool

EventType = SessionEvent.Type
State, Status = ToolExecution.State, Session.Status
LOST = "The worker was lost while this ran. Whether it took effect is not known; check before repeating it."
#: A percentile is the mean of the bucket that holds it, so it is at most a tenth off.
COUNT_BY_TOOL = """
WITH used AS MATERIALIZED (SELECT * FROM tool_use_between(%s, %s, %s)),
buckets AS (
  SELECT name, sum(ms) / sum(calls) AS ms,
         sum(sum(calls)) OVER (PARTITION BY name ORDER BY bucket) AS up_to,
         sum(sum(calls)) OVER (PARTITION BY name) AS ran
    FROM used WHERE bucket > %s GROUP BY name, bucket HAVING sum(calls) > 0),
percentiles AS (
  SELECT name, min(ms) FILTER (WHERE up_to >= 0.5 * ran) AS p50,
         min(ms) FILTER (WHERE up_to >= 0.95 * ran) AS p95
    FROM buckets GROUP BY name)
SELECT u.name, sum(u.calls)::bigint,
       coalesce(sum(u.calls) FILTER (WHERE u.state = 'completed'), 0)::bigint,
       coalesce(sum(u.calls) FILTER (WHERE u.state = 'error'), 0)::bigint,
       coalesce(sum(u.calls) FILTER (WHERE u.state = 'denied'), 0)::bigint,
       coalesce(sum(u.calls) FILTER (WHERE u.state = 'cancelled'), 0)::bigint,
       coalesce(sum(u.calls) FILTER (WHERE u.state = 'unknown'), 0)::bigint,
       coalesce(sum(u.calls) FILTER (WHERE u.decision = 'ask'), 0)::bigint,
       min(p.p50)::float8, min(p.p95)::float8
  FROM used u LEFT JOIN percentiles p ON p.name = u.name
 GROUP BY u.name HAVING sum(u.calls) > 0 ORDER BY 2 DESC, 1 LIMIT 500
"""
#: Calls that are folded in one commit.
FOLD_BATCH = 2_000
FOLD = "SELECT tool_use_fold(%s)"


@dataclass(frozen=True)
class CallResult:
    """The result of one call."""

    execution: ToolExecution
    state: str
    _: KW_ONLY
    output: Any = None
    error: str = ""

    def event(self) -> NewEvent:
        call = self.execution
        took = (timezone.now() - call.started_at).total_seconds() if call.started_at else 0
        payload = {
            "tool_use_id": call.tool_use_id,
            "name": call.name,
            "state": self.state,
            "output": self.output,
            "error": self.error,
            "duration_ms": round(took * 1000),
        }
        if call.retries:
            # The call has a result already. Every view shows the newest.
            payload["late"] = True
        return NewEvent(type=EventType.AGENT_TOOL_RESULT, payload=payload)

    def store(self, calls: QuerySet[ToolExecution]) -> bool:
        """Store the result with its call, if that is one of these calls."""
        return bool(
            calls.filter(pk=self.execution.pk).update(
                state=self.state,
                output=storable_json(self.output),
                error=storable(self.error),
                finished_at=timezone.now(),
            )
        )


def new_call(
    name: str, input: dict[str, Any], tool: Tool | None, decided: Decision, **owner: Any
) -> ToolExecution:
    """Return a call that was not started. The caller stores it."""
    return ToolExecution(
        name=name[:160],
        input=input,
        ownership=tool.ownership if tool else "managed",
        decision=decided.decision,
        decided_by=decided.decided_by[:200],
        read_only=bool(tool and tool.read_only),
        idempotent=bool(tool and tool.idempotent),
        state=State.AWAITING_APPROVAL if decided.decision == "ask" else State.REQUESTED,
        **owner,
    )


# ── Calls of a run ───────────────────────────────────────────────────────────────────────────────


def request_calls(turn: Turn, answer: ModelAnswer) -> list[ToolExecution]:
    """Write the answer and its charge and all of its calls in one commit, before anything runs."""
    calls = [_execution(turn, _direct(turn, call)) for call in answer.calls]
    events = [*turn.note_events(), *answer.events()]
    for call, execution in zip(answer.calls, calls, strict=True):
        events.append(_use_event(call, execution))
    asked = approvals_for(calls, turn.agent_id)

    def write() -> None:
        append_events(turn.session_id, events, epoch=turn.claim.epoch, run_id=turn.claim.run_id)
        if turn.unpaid:
            settle_call(turn.unpaid)
        ToolExecution.objects.bulk_create(calls)
        if asked:
            Approval.objects.bulk_create(asked)
            announce(asked)

    commit_once(write)
    turn.unpaid = None
    turn.note_is_stored()
    return calls


def _direct(turn: Turn, call: ToolCall) -> ToolCall:
    """Return the call under the name of its own tool."""
    return (unwrap(call, turn.tools) if turn.deferred else None) or call


def _execution(turn: Turn, call: ToolCall) -> ToolExecution:
    # Decided per call, because a rule may look at the arguments.
    input = storable_json(call.arguments)
    tool = turn.policy.tools.get(call.name)
    return new_call(
        call.name,
        input,
        tool,
        _decide(turn, call.name, input, tool),
        tool_use_id=f"tu_{uuid7().hex}",
        workspace_id=turn.workspace_id,
        session_id=turn.session_id,
        run_id=turn.claim.run_id,
    )


def _decide(turn: Turn, name: str, input: dict[str, Any], tool: Tool | None) -> Decision:
    """Return the policy's decision. A question that may be asked waits for a person's answer."""
    decided = turn.policy.decide_call(name, input)
    if tool is None or not tool.asks or decided.decision == "deny":
        return decided
    try:
        tool.parse(input)
    except ToolFailed:
        return Decision(
            decision="allow", decided_by=decided.decided_by
        )  # It fails with the reason.
    return Decision(decision="ask", decided_by="a question to a person")


def _use_event(call: ToolCall, execution: ToolExecution) -> NewEvent:
    payload: dict[str, Any] = {
        "tool_use_id": execution.tool_use_id,
        "name": execution.name,
        "input": execution.input,
        "ownership": execution.ownership,
        "decision": execution.decision,
        "decided_by": execution.decided_by,
    }
    if call.provider_state:
        payload["provider_state"] = call.provider_state
    if execution.name != call.name[:160]:
        # The model called it through another tool, and must see that call again.
        payload["via"] = call.name
    custom = execution.ownership == "custom"
    return NewEvent(
        type=EventType.AGENT_CUSTOM_TOOL_USE if custom else EventType.AGENT_TOOL_USE,
        payload=payload,
    )


def begin(turn: Turn, executions: list[ToolExecution]) -> None:
    """Mark calls as started, under the lock of the lane, so that no other worker can start them."""
    ids, now = [e.pk for e in executions], timezone.now()

    def write(again: bool) -> None:
        with transaction.atomic():
            lock_lane(turn.session_id, turn.claim.epoch)
            calls = ToolExecution.objects.filter(pk__in=ids, state=State.REQUESTED)
            started = calls.update(state=State.RUNNING, started_at=now, attempts=F("attempts") + 1)
            if started != len(ids) and not again:
                raise StaleEpoch("Another worker or an answer has ended one of these calls.")

    retry_on_disconnect(write)
    for execution in executions:
        execution.state, execution.started_at = State.RUNNING, now


def record(turn: Turn, results: list[CallResult], also: Callable[[], None] | None = None) -> None:
    """Write results to the log and the ledger, and whatever `also` writes, in one commit."""
    events = [result.event() for result in results]

    def write() -> None:
        append_events(turn.session_id, events, epoch=turn.claim.epoch, run_id=turn.claim.run_id)
        for result in results:
            result.store(ToolExecution.objects.all())
        if also:
            also()

    commit_once(write)


def recover_calls(turn: Turn) -> list[ToolExecution]:
    """Return the calls of a lost or parked run that may run now.

    A call that was not started runs; a started call runs again only if repeating it is harmless.
    Any other call is recorded as unknown, and the model is told.
    """
    unfinished = _open(turn)
    begun = [e for e in unfinished if e.state == State.RUNNING and not e.waits]
    lost = [e for e in begun if not e.is_repeatable]
    if lost:
        record(turn, [CallResult(e, State.UNKNOWN, error=LOST) for e in lost])
    again = [e for e in begun if e not in lost]
    if again:
        with transaction.atomic():
            lock_lane(turn.session_id, turn.claim.epoch)
            calls = ToolExecution.objects.filter(pk__in=[e.pk for e in again])
            calls.update(state=State.REQUESTED)
        for execution in again:
            execution.state = State.REQUESTED
    return [e for e in unfinished if e.state == State.REQUESTED]


def cancel_open_calls(turn: Turn, reason: str) -> None:
    """End every call that this run leaves open, and with it the approvals that wait for them."""
    if left := _open(turn):
        record(turn, [CallResult(e, State.CANCELLED, error=reason) for e in left])


def open_calls(turn: Turn) -> tuple[list[ToolExecution], list[ToolExecution]]:
    """Return the open calls that may run now, and those that wait for an answer."""
    calls = _open(turn)
    return [c for c in calls if not c.waits], [c for c in calls if c.waits]


def _open(turn: Turn) -> list[ToolExecution]:
    return list(ToolExecution.objects.open().filter(session_id=turn.session_id).order_by("id"))


# ── Calls of a workflow ──────────────────────────────────────────────────────────────────────────


def begin_workflow_call(
    call: ToolExecution, *, attempt: int, fence: Callable[[], object], lost: str
) -> ToolExecution:
    """Write a call and start it, in one commit, unless an earlier attempt has decided its outcome.

    The returned call is `running` if it is to be made now; otherwise it says how it ended. `fence`
    locks the workflow and raises StaleEpoch if this worker lost it.
    """
    with transaction.atomic():
        fence()
        known = ToolExecution.objects.filter(
            session_id=call.session_id, tool_use_id=call.tool_use_id
        )
        call = known.first() or call
        if attempt > 1 and not call.is_repeatable:
            if call.state in ToolExecution.OPEN:
                call.state, call.error, call.finished_at = State.UNKNOWN, lost, timezone.now()
        elif call.state != State.COMPLETED:
            call.state, call.error, call.output = State.RUNNING, "", None
            call.started_at, call.finished_at, call.attempts = timezone.now(), None, attempt
        call.save()
    return call


def refuse_workflow_call(call: ToolExecution, state: str, error: str) -> None:
    """Write a call that is not made, and why. What an earlier attempt wrote stays."""
    call.state, call.error, call.finished_at = state, error, timezone.now()
    ToolExecution.objects.bulk_create([call], ignore_conflicts=True)


def end_workflow_call(result: CallResult, also: Callable[[], None]) -> None:
    """Write how this attempt ended, and what `also` writes, in one commit.

    The worker reports it even if another one holds the workflow by now, unless that one has started
    the call again.
    """
    call = result.execution
    begun = ToolExecution.objects.filter(state=State.RUNNING, attempts=call.attempts)
    stored = replace(result, output=_as_json(result.output))

    def write(again: bool) -> None:
        with transaction.atomic():
            if stored.store(begun):
                also()

    retry_on_disconnect(write)


def _as_json(output: Any) -> Any:
    """Return the output as JSON, or None: the step reports an output that is not JSON."""
    try:
        return orjson.loads(orjson.dumps(output))
    except TypeError:
        return None


def close_workflow_calls(workflow_ids: QuerySet, lost: str) -> int:
    """End the calls of these workflows that no worker will report on. Return how many there were."""
    left = ToolExecution.objects.filter(state=State.RUNNING, workflow_id__in=workflow_ids)
    return left.update(state=State.UNKNOWN, error=lost, finished_at=Now())


# ── Calls of unknown outcome ─────────────────────────────────────────────────────────────────────


@transaction.atomic
def verify(
    call: ToolExecution,
    principal: Principal,
    *,
    took_effect: bool,
    output: Any = None,
    note: str = "",
) -> ToolExecution:
    """Record what a person found out about a call of unknown outcome. Nothing is run."""
    authorise(principal, "run", call)
    locked, _ = _lock_unknown(call)
    output, note = storable_json(output), storable(note)
    if took_effect:
        locked.state, locked.error = State.COMPLETED, ""
        locked.output = output if output is not None else f"It took effect. {note}".strip()
    else:
        locked.state, locked.output = State.ERROR, output
        locked.error = f"It did not take effect. {note}".strip()
    locked.finished_at = timezone.now()
    locked.save(update_fields=["state", "output", "error", "finished_at"])
    if locked.workflow_id:  # no model waits for it, and the log of its session does not show it
        return locked
    found = result_event(locked, late=True, verified_by=principal.name, note=note)
    append_events(locked.session_id, [found], author_id=principal.user_id)
    return locked


@transaction.atomic
def retry(
    call: ToolExecution, principal: Principal, *, note: str = ""
) -> tuple[ToolExecution, UUID]:
    """Run a call of unknown outcome again, with the stored arguments, in a new run."""
    authorise(principal, "run", call)
    locked, status = _lock_unknown(call)
    if locked.workflow_id:
        raise Conflict("A workflow made this call. Start the workflow again from this step.")
    if status == Status.TERMINATED:
        raise SessionEnded
    if status in {Status.RUNNING, Status.RESCHEDULING}:
        raise SessionBusy("The session is running. Try again when it is idle.")
    locked.state, locked.output, locked.error = State.REQUESTED, None, ""
    locked.started_at = locked.finished_at = None
    locked.retries += 1
    locked.save(update_fields=["state", "output", "error", "started_at", "finished_at", "retries"])
    payload = {
        "tool_use_id": locked.tool_use_id,
        "decision": "allow",
        "scope": "once",
        "note": note,
        "input": None,
        "again": True,
        "answered_by": principal.spoken_name,
    }
    event = NewEvent(type=SessionEvent.Type.USER_TOOL_CONFIRMATION, payload=payload)
    append_events(locked.session_id, [event], author_id=principal.user_id)
    return locked, resume(locked.session, principal.user_id)


def _lock_unknown(call: ToolExecution) -> tuple[ToolExecution, str]:
    """Return the call and the status of its session, under the lock of the lane.

    Raise Conflict if the outcome of the call is not unknown.
    """
    status = lock_lane(call.session_id).status
    locked = ToolExecution.objects.select_related("session").get(pk=call.pk)
    if locked.state != State.UNKNOWN:
        raise Conflict(
            f"This call is {locked.state}. Only a call with an unknown outcome can be settled."
        )
    return locked, status


# ── Statistics ───────────────────────────────────────────────────────────────────────────────────


class ToolUse(NamedTuple):
    """The calls of one tool in a period. Durations are milliseconds, or None if it never ran."""

    name: str
    calls: int
    completed: int
    failed: int
    denied: int
    cancelled: int
    unknown: int
    asked: int
    p50_ms: float | None
    p95_ms: float | None


def tool_use(workspace_id: UUID, days: int) -> list[ToolUse]:
    """Return every tool that was called in the last days, the busiest first.

    The first of these days is counted from its beginning, because the sums are those of days.
    """
    today = timezone.now().astimezone(UTC).date()
    return tool_use_between(workspace_id, today - timedelta(days=days), today)


def tool_use_between(workspace_id: UUID, first: date, last: date) -> list[ToolUse]:
    """Return every tool that was called on these days by UTC, the busiest first."""
    params = [workspace_id, first, last, ToolUseRollup.NEVER_RAN]
    return [ToolUse(*counts) for counts in rows(COUNT_BY_TOOL, params)]


def fold_calls() -> int:
    """Add the calls that have ended to the sums of their days, and return their number."""
    folded = 0
    while (batch := row(FOLD, [FOLD_BATCH])[0]) > 0:
        folded += batch
    return folded
