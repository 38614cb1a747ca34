"""The bounded loop of a run: ask the model, run its calls, until it answers without one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import structlog
from django.db import Error

from config.faults import (
    BudgetReached,
    CompactionFailed,
    Fault,
    LimitReached,
    OutOfCredits,
    ProviderFault,
    RunStopped,
    StaleEpoch,
)
from sessions_app import lanes, ledger
from sessions_app.answer import ask_model
from sessions_app.approvals import grants_of
from sessions_app.compaction.by_hand import compact_by_hand
from sessions_app.execution import execute
from sessions_app.handover import deliver_from
from sessions_app.lanes import Claim, Finished
from sessions_app.log import NewEvent
from sessions_app.models import Run, SessionEvent
from sessions_app.mounting import put_away
from sessions_app.outcomes.closing import close, unjudged
from sessions_app.points import reached
from sessions_app.statements import patiently
from sessions_app.stopping import StopSign
from sessions_app.turn import Turn, load_turn
from tools_app.sandbox import kill_leftovers

log = structlog.get_logger(__name__)

RETRY_SECONDS = 5.0  #: Before a run that failed for a reason nobody foresaw is tried again.


def run(claim: Claim, owner: UUID, sign: StopSign) -> Claim | None:
    """Take one run from its claim to its end. Answers with the next run of the lane, if any.

    Who lost the lane writes nothing more: its new holder goes on from the log.
    """
    reached("after_claim")
    try:
        turn = load_turn(claim, owner, sign)
        try:
            following = _guarded(turn)
        finally:
            put_away(turn)
        if turn.awaited:
            _deliver(turn)
        return following
    except (StaleEpoch, RunStopped):
        return None
    except (Fault, Error):
        raise
    except Exception as error:
        log.exception("run_crashed", run_id=str(claim.run_id))
        lanes.release(claim, reason=type(error).__name__, delay=RETRY_SECONDS, lost=True)
        return None


def _deliver(turn: Turn) -> None:
    """Tell who waits for this session. The next run of the lane is held already and must not be lost."""
    try:
        deliver_from(turn.session_id)
    except (Fault, Error):
        log.warning("delivery_left_to_supervisor", run_id=str(turn.claim.run_id), exc_info=True)


def _guarded(turn: Turn) -> Claim | None:
    """Turn every expected end into a status that says which it was."""
    try:
        return _take_turn(turn)
    except LimitReached as fault:
        ledger.close_open(turn, f"Not run: {fault.detail}")
        ended = _end(turn, events=[_error(fault)], stop_reason="step_limit", error=_facts(fault))
    except (BudgetReached, OutOfCredits) as fault:
        ended = _fail(turn, fault, "budget_reached")
    except ProviderFault as fault:
        ended = _fail(turn, fault, "retries_exhausted")
    return ended.next


def _take_turn(turn: Turn) -> Claim | None:
    if turn.purpose == Run.Purpose.COMPACT:
        return _compact(turn)
    left = None
    if turn.recovering:
        kill_leftovers(turn.session_id)
        execute(turn, ledger.recover(turn))
        if (parked := _settle(turn)) is not None:
            return parked.next
        left = unjudged(turn)
    while True:
        turn.check_bounds()
        answer, left = left or ask_model(turn), None
        if not answer.calls:
            ended = close(turn, answer, _end)
            if not ended.goes_on:
                return ended.next
            turn.listen()
            continue
        executions = ledger.request_calls(turn, answer)
        reached("after_tool_use")
        execute(turn, executions)
        if any(e.waits for e in executions) and (parked := _settle(turn)) is not None:
            return parked.next
        if patiently(lambda again: lanes.step(turn.claim)):
            turn.listen()


def _compact(turn: Turn) -> Claim | None:
    """A run that only compacts. It answers no message: one that was steered into it gets its own."""
    try:
        result = compact_by_hand(turn)
    except CompactionFailed as fault:
        ended = _end(
            turn, outcome=Run.Status.FAILED, stop_reason="retries_exhausted", error=_facts(fault)
        )
    else:
        ended = _end(turn, stop_reason="compacted", result=result)
    return ended.next


def _settle(turn: Turn) -> Finished | None:
    """Run what was answered; end the run if somebody has to answer first. None: it goes on."""
    while True:
        ready, blocked = ledger.still_open(turn)
        if ready:
            turn.policy.grants = grants_of(turn.session_id)
            execute(turn, ready)
        elif not blocked:
            return None
        else:
            parked = _end(turn, stop_reason="requires_action")
            if not parked.goes_on:
                return parked


def _end(turn: Turn, *, stop_reason: str = "end_turn", **words: Any) -> Finished:
    reached("before_completion")
    usage, policy = turn.spent.as_json(), turn.policy_json()
    return patiently(
        lambda again: lanes.finish(
            turn.claim, turn.owner, stop_reason=stop_reason, usage=usage, policy=policy, **words
        )
    )


def _fail(turn: Turn, fault: Fault, stop_reason: str) -> Finished:
    return _end(
        turn,
        events=[_error(fault)],
        outcome=Run.Status.FAILED,
        stop_reason=stop_reason,
        error=_facts(fault),
    )


def _facts(fault: Fault) -> dict[str, Any]:
    retryable = not isinstance(fault, LimitReached)
    return {"code": fault.code, "message": fault.detail, "retryable": retryable}


def _error(fault: Fault) -> NewEvent:
    return NewEvent(type=SessionEvent.Type.ERROR, payload=_facts(fault))
