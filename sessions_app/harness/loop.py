"""The loop of a run: ask the model, run its tool calls, and repeat until it answers without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import structlog
from django.db import Error

from agents.exceptions import (
    ContextOverflow,
    ProviderFault,
    ProviderNotConfigured,
    ProviderRejected,
)
from agents.providers.base import ModelRequest
from agents.providers.keys import provider_for
from core.exceptions import Fault, StaleEpoch
from sessions_app import ledger
from sessions_app.approvals.approvals import session_grants
from sessions_app.consolidation import consolidate_on_request
from sessions_app.context.builder import MIN_CONVERSATION, Context, build_context
from sessions_app.context.compaction.cycle import compact, compact_if_full, compact_on_request
from sessions_app.context.taint import mark_tainted
from sessions_app.exceptions import AnswerMisshapen, CompactionFailed, LimitReached, RunStopped
from sessions_app.harness.crash_points import crash_point
from sessions_app.harness.execution import execute
from sessions_app.harness.model_call import CallOptions, ModelAnswer, call_model, settle_unpaid
from sessions_app.harness.shapes import shape_of
from sessions_app.harness.turn import Turn, load_turn
from sessions_app.lanes import run_queue
from sessions_app.lanes.run_queue import Claim, Finished
from sessions_app.lanes.signals import StopSignal
from sessions_app.log.sql import retry_on_disconnect
from sessions_app.log.writer import NewEvent
from sessions_app.models import ContextSnapshot, Run, SessionEvent
from sessions_app.outcomes.judging import close, find_unjudged
from sessions_app.resources.mounts import delete_secret_files
from sessions_app.subagents.spawns import deliver_results_of
from tenants.exceptions import BudgetReached, OutOfCredits
from tenants.models import ModelCall
from tools_app.sandbox.provisioning import kill_leftovers

log = structlog.get_logger(__name__)

PAUSES = (0.5, 1.0, 2.0, 4.0)  #: Seconds before each retry of the same model.
LONGEST_PAUSE = 30.0
RETRY_SECONDS = 5.0  #: Delay before a run that crashed is tried again.


def run(claim: Claim, owner: UUID, stop_signal: StopSignal) -> Claim | None:
    """Take one run from its claim to its end, and return the next run of the lane, if any.

    A worker that lost the lane writes nothing more: the new holder continues from the log.
    """
    crash_point("after_claim")
    try:
        turn = load_turn(claim, owner, stop_signal)
        try:
            following = _run_turn(turn)
        finally:
            settle_unpaid(turn)
            delete_secret_files(turn)
        if turn.awaited:
            _deliver(turn)
        return following
    except (StaleEpoch, RunStopped):
        return None
    except (Fault, Error):
        raise
    except Exception as error:
        log.exception("run_crashed", run_id=str(claim.run_id))
        run_queue.release(claim, reason=type(error).__name__, delay=RETRY_SECONDS, lost=True)
        return None


def _deliver(turn: Turn) -> None:
    """Deliver this session's answer to the session that waits for it.

    A failure is left to the supervisor, because the next run of the lane is already claimed.
    """
    try:
        deliver_results_of(turn.session_id)
    except (Fault, Error):
        log.warning("delivery_left_to_supervisor", run_id=str(turn.claim.run_id), exc_info=True)


def _run_turn(turn: Turn) -> Claim | None:
    """Turn every expected end into a stop reason that says which it was."""
    try:
        return _work(turn)
    except LimitReached as fault:
        ledger.cancel_open_calls(turn, f"Not run: {fault.detail}")
        ended = _end(
            turn,
            events=_last_events(turn, fault),
            stop_reason=fault.stop_reason,
            error=_error_details(fault),
        )
    except (BudgetReached, OutOfCredits) as fault:
        ended = _fail(turn, fault, "budget_reached")
    except ProviderFault as fault:
        ended = _fail(turn, fault, "retries_exhausted")
    except AnswerMisshapen as fault:
        ended = _fail(turn, fault, "answer_misshapen")
    return ended.next


def _work(turn: Turn) -> Claim | None:
    match turn.purpose:
        case Run.Purpose.COMPACT:
            return _compact(turn)
        case Run.Purpose.CONSOLIDATE:
            result = consolidate_on_request(turn)
            return _end(turn, stop_reason="consolidated", result=result).next
        case _:
            return _take_turn(turn)


def _take_turn(turn: Turn) -> Claim | None:
    turn.shape = shape_of(turn.version.response_schema)
    left = None
    if turn.recovering:
        kill_leftovers(turn.session_id)
        execute(turn, ledger.recover_calls(turn))
        turn.entries = None
        if (parked := _settle(turn)) is not None:
            return parked.next
        left = find_unjudged(turn)
    while True:
        turn.check_bounds()
        answer, left = left or ask_model(turn), None
        if not answer.calls:
            if not _fits(turn, answer):
                continue
            ended = close(turn, answer, _end)
            if not ended.goes_on:
                return ended.next
            turn.reload_basis(new_message=True)
            continue
        executions = ledger.request_calls(turn, answer)
        crash_point("after_tool_use")
        execute(turn, executions)
        if any(e.waits for e in executions) and (parked := _settle(turn)) is not None:
            return parked.next
        if retry_on_disconnect(lambda again: run_queue.step(turn.claim)):
            turn.reload_basis(new_message=True)


def _fits(turn: Turn, answer: ModelAnswer) -> bool:
    """Read the data of an answer that must fit a schema. Return False if it is asked for again."""
    if turn.shape is None:
        return True
    try:
        answer.data = turn.shape.read(answer.text)
    except AnswerMisshapen as fault:
        settle_unpaid(turn)
        # It is kept if it was the last attempt.
        answer.is_misshapen, turn.unfinished = True, answer
        turn.shape.refuse(answer.text, fault.detail)
        return False
    return True


def _compact(turn: Turn) -> Claim | None:
    """Run a compaction. A message that was steered into it gets its own run."""
    try:
        result = compact_on_request(turn)
    except CompactionFailed as fault:
        ended = _end(
            turn,
            outcome=Run.Status.FAILED,
            stop_reason="retries_exhausted",
            error=_error_details(fault),
        )
    else:
        ended = _end(turn, stop_reason="compacted", result=result)
    return ended.next


def _settle(turn: Turn) -> Finished | None:
    """Run calls that were answered. End the run if others still wait; None means it goes on."""
    while True:
        ready, blocked = ledger.open_calls(turn)
        if ready:
            turn.policy.grants = session_grants(turn.session_id)
            execute(turn, ready)
        elif not blocked:
            return None
        else:
            parked = _end(turn, stop_reason="requires_action")
            if not parked.goes_on:
                return parked


def _end(
    turn: Turn,
    *,
    stop_reason: str = "end_turn",
    events: Sequence[NewEvent] = (),
    **details: Any,
) -> Finished:
    crash_point("before_completion")
    details["events"] = [*turn.note_events(), *events]
    details |= {"usage": turn.spent.as_json(), "policy": turn.policy_json(), "charge": turn.unpaid}
    finished = retry_on_disconnect(
        lambda again: run_queue.finish(turn.claim, turn.owner, stop_reason=stop_reason, **details)
    )
    turn.unpaid = None
    turn.note_is_stored()
    return finished


def _fail(turn: Turn, fault: Fault, stop_reason: str) -> Finished:
    return _end(
        turn,
        events=_last_events(turn, fault),
        outcome=Run.Status.FAILED,
        stop_reason=stop_reason,
        error=_error_details(fault),
    )


#: Faults that the same request meets again: it, the key or the money has to change first.
NOT_RETRYABLE = (
    LimitReached,
    AnswerMisshapen,
    ProviderRejected,
    ProviderNotConfigured,
    BudgetReached,
    OutOfCredits,
)


def _error_details(fault: Fault) -> dict[str, Any]:
    retryable = not isinstance(fault, NOT_RETRYABLE)
    return {"code": fault.code, "message": fault.detail, "retryable": retryable}


def _last_events(turn: Turn, fault: Fault) -> list[NewEvent]:
    """Return the error, after the text of an answer that viewers saw and that broke off."""
    error = NewEvent(type=SessionEvent.Type.ERROR, payload=_error_details(fault))
    unfinished, turn.unfinished = turn.unfinished, None
    return [unfinished.event(partial=True), error] if unfinished else [error]


# ── The next answer ──────────────────────────────────────────────────────────────────────────────


def ask_model(turn: Turn) -> ModelAnswer:
    """Return the answer of the first model in the agent's list that gives one."""
    candidates = [(turn.version.provider, turn.version.model)]
    candidates += [(fallback["provider"], fallback["model"]) for fallback in turn.version.fallbacks]
    for nth, (provider, model) in enumerate(candidates):
        try:
            return _ask(turn, provider, model)
        except ContextOverflow:
            raise
        except ProviderFault as fault:
            last = nth == len(candidates) - 1
            # Another model must not continue text that viewers saw, or repeat what tools did.
            if last or turn.spent.tool_calls or fault.emitted:
                raise
    raise AssertionError("an agent has at least one model")


def _ask(turn: Turn, provider: str, model: str) -> ModelAnswer:
    """Ask once, and a second time with a smaller context if the model finds the request too long."""
    context = _context(turn, provider, model)
    try:
        return _call(turn, context.request, provider)
    except ContextOverflow as fault:
        smaller = None if fault.emitted else _smaller(turn, context)
        if smaller is None:
            raise
        return _call(turn, smaller.request, provider)


def _context(turn: Turn, provider: str, model: str) -> Context:
    """Build the context, compacting it first if it is nearly full."""
    context = _build(turn, provider, model)
    if compact_if_full(turn, context):
        context = _build(turn, provider, model)
    return context


def _build(turn: Turn, provider: str, model: str) -> Context:
    entries, turn.entries = turn.entries, None
    context = build_context(
        turn.inputs,
        provider,
        model,
        memories=turn.memories,
        entries=entries,
        ceiling=turn.ceiling,
    )
    if turn.memories is None and context.memories.has_untrusted:
        mark_tainted(turn.session_id)
    turn.memories, turn.note = context.memories, context.note
    return context


def _smaller(turn: Turn, context: Context) -> Context | None:
    """Return a compacted and shortened context after an overflow, or None if it is no smaller."""
    compact(turn, context.provider, context.model, ContextSnapshot.Trigger.OVERFLOW)
    conversation = max(
        MIN_CONVERSATION + 2 * context.budget.summary, (context.tokens - context.fixed) // 2
    )
    turn.ceiling = context.fixed + conversation
    try:
        smaller = _build(turn, context.provider, context.model)
        return smaller if smaller.tokens < context.tokens else None
    except ContextOverflow:
        return None


def _call(turn: Turn, request: ModelRequest, provider: str) -> ModelAnswer:
    options = CallOptions(
        purpose=ModelCall.Purpose.ANSWER,
        pauses=PAUSES,
        longest_pause=LONGEST_PAUSE,
        check=turn.check_bounds,
        is_watched=True,
    )
    if turn.shape:
        request = turn.shape.applied(request)
    answer = call_model(turn, provider_for(turn.workspace_id, provider), provider, request, options)
    crash_point("after_model_call")
    return answer
