"""The tool ledger: written before a tool runs, so that a crash can say what it does not know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from agents.providers.base import ToolCall
from config.faults import StaleEpoch
from sessions_app.answer import Answer
from sessions_app.approval_bell import announce
from sessions_app.asking import questions
from sessions_app.log import NewEvent, append_events
from sessions_app.models import Approval, SessionEvent, ToolExecution
from sessions_app.statements import commit_once, hold_lane, patiently
from sessions_app.turn import Turn
from tenants.ids import uuid7
from tools_app.clip import storable, storable_json

E, State = SessionEvent.Type, ToolExecution.State
LOST = "The worker was lost while this ran. Whether it took effect is not known; check before repeating it."


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one call."""

    execution: ToolExecution
    state: str
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
            # It has a result already: every view takes the newest.
            payload["late"] = True
        return NewEvent(type=E.AGENT_TOOL_RESULT, payload=payload)


def message_event(answer: Answer) -> NewEvent:
    """The answer's words as an event, under the id that viewers already know."""
    usage = {
        "input_tokens": answer.usage.input_tokens,
        "output_tokens": answer.usage.output_tokens,
        "cost": str(answer.cost),
    }
    payload: dict[str, Any] = {"text": answer.text, "model": answer.model, "usage": usage}
    if answer.provider_state:
        payload["provider_state"] = answer.provider_state
    return NewEvent(id=answer.event_id, type=E.AGENT_MESSAGE, payload=payload)


def request_calls(turn: Turn, answer: Answer) -> list[ToolExecution]:
    """Write the answer and every call it asks for, in one commit, before anything runs."""
    calls = [_execution(turn, call) for call in answer.calls]
    events = [message_event(answer)] if answer.text else []
    for call, execution in zip(answer.calls, calls, strict=True):
        events.append(_use_event(call, execution))
    asked = questions(calls, turn.agent_id)

    def write() -> None:
        append_events(turn.session_id, events, epoch=turn.claim.epoch, run_id=turn.claim.run_id)
        ToolExecution.objects.bulk_create(calls)
        if asked:
            Approval.objects.bulk_create(asked)
            announce(asked)

    commit_once(write)
    return calls


def _execution(turn: Turn, call: ToolCall) -> ToolExecution:
    # Decided per call: a rule may look at the arguments.
    input = storable_json(call.arguments)
    tool, decided = turn.policy.tools.get(call.name), turn.policy.decide_call(call.name, input)
    return ToolExecution(
        workspace_id=turn.workspace_id,
        session_id=turn.session_id,
        run_id=turn.claim.run_id,
        tool_use_id=f"tu_{uuid7().hex}",
        name=call.name[:160],
        input=input,
        ownership=tool.ownership if tool else "managed",
        decision=decided.decision,
        decided_by=decided.decided_by[:200],
        read_only=bool(tool and tool.read_only),
        idempotent=bool(tool and tool.idempotent),
        state=State.AWAITING_APPROVAL if decided.decision == "ask" else State.REQUESTED,
    )


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
    custom = execution.ownership == "custom"
    return NewEvent(type=E.AGENT_CUSTOM_TOOL_USE if custom else E.AGENT_TOOL_USE, payload=payload)


def begin(turn: Turn, executions: list[ToolExecution]) -> None:
    """Mark calls as started, under the lane's lock: nobody else can start them."""
    ids, now = [e.pk for e in executions], timezone.now()

    def write(again: bool) -> None:
        with transaction.atomic():
            hold_lane(turn.session_id, turn.claim.epoch)
            rows_ = ToolExecution.objects.filter(pk__in=ids, state=State.REQUESTED)
            started = rows_.update(state=State.RUNNING, started_at=now, attempts=F("attempts") + 1)
            if started != len(ids) and not again:
                raise StaleEpoch("A call was resolved by somebody else.")

    patiently(write)
    for execution in executions:
        execution.state, execution.started_at = State.RUNNING, now


def record(turn: Turn, outcomes: list[Outcome], also: Callable[[], None] | None = None) -> None:
    """Write results to the log and the ledger, and what `also` writes, in one commit."""
    events = [outcome.event() for outcome in outcomes]

    def write() -> None:
        append_events(turn.session_id, events, epoch=turn.claim.epoch, run_id=turn.claim.run_id)
        for outcome in outcomes:
            _close(outcome)
        if also:
            also()

    commit_once(write)


def _close(outcome: Outcome) -> None:
    ToolExecution.objects.filter(pk=outcome.execution.pk).update(
        state=outcome.state,
        output=storable_json(outcome.output),
        error=storable(outcome.error),
        finished_at=timezone.now(),
    )


def recover(turn: Turn) -> list[ToolExecution]:
    """What a lost or waiting run left open: the calls that may run now.

    A call that was not started runs; a started one only if repeating it is harmless. Any other is
    recorded as unknown, and the model is told.
    """
    open_ones = list(ToolExecution.objects.open().filter(session_id=turn.session_id).order_by("id"))
    begun = [e for e in open_ones if e.state == State.RUNNING and not e.waits]
    lost = [e for e in begun if not (e.read_only or e.idempotent)]
    if lost:
        record(turn, [Outcome(execution=e, state=State.UNKNOWN, error=LOST) for e in lost])
    again = [e for e in begun if e not in lost]
    if again:
        with transaction.atomic():
            hold_lane(turn.session_id, turn.claim.epoch)
            rows_ = ToolExecution.objects.filter(pk__in=[e.pk for e in again])
            rows_.update(state=State.REQUESTED)
        for execution in again:
            execution.state = State.REQUESTED
    return [e for e in open_ones if e.state == State.REQUESTED]


def close_open(turn: Turn, reason: str) -> None:
    """End every call that this run leaves behind, and with it what people were asked about it."""
    left = list(ToolExecution.objects.open().filter(session_id=turn.session_id).order_by("id"))
    if left:
        record(turn, [Outcome(execution=e, state=State.CANCELLED, error=reason) for e in left])


def still_open(turn: Turn) -> tuple[list[ToolExecution], list[ToolExecution]]:
    """The calls that may run now, and those for which somebody has to answer first."""
    found = ToolExecution.objects.open().filter(session_id=turn.session_id).order_by("id")
    calls = list(found)
    return [c for c in calls if not c.waits], [c for c in calls if c.waits]
