"""Judges a run's last answer by the session's outcome and ends the run or sends the answer back.

An answer is judged once, and the number of returns is counted from the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from agents.exceptions import ProviderFault
from agents.providers.base import ModelRequest, estimate_tokens
from core.exceptions import Invalid
from sessions_app.context.builder import token_budget
from sessions_app.context.compaction.summaries import transcript
from sessions_app.context.conversation import read_newest
from sessions_app.harness.crash_points import crash_point
from sessions_app.harness.model_call import ModelAnswer, complete
from sessions_app.harness.turn import Turn
from sessions_app.lanes import run_queue
from sessions_app.lanes.run_queue import Finished
from sessions_app.log.sql import retry_on_disconnect, row
from sessions_app.log.writer import NewEvent, append_with_retry
from sessions_app.models import SessionEvent
from sessions_app.outcomes.criteria import (
    GRADERS,
    Outcome,
    Verdict,
    grade_by_plugin,
    grade_request,
    read_verdict,
    unclear,
)
from tenants.models import ModelCall
from tools_app.taint import clip_for_model, fence_mark

log = structlog.get_logger(__name__)

E = SessionEvent.Type
EndRun = Callable[..., Finished]
CONTINUES = Finished(goes_on=True, next=None)
#: The most of a conversation that a grader reads.
MAX_LINES, MAX_TOKENS = 200, 12_000
MAX_ANSWER_CHARS = 20_000
#: Lines to search for an unjudged answer. Changes of queued messages may follow it.
SEARCHED_LINES = 20
# Uses the index of verdicts. A run that resumes after a wait belongs to the turn that waited.
COUNT_RETURNS = """
WITH root AS (
  SELECT r.id, r.session_id, r.started_at FROM agent_run_queue q
    JOIN agent_run_queue r ON r.id = coalesce(turn_root(q.id), q.id) WHERE q.id = %s),
newest AS (
  SELECT m.run_id, (m.payload ->> 'returned')::boolean AS returned
    FROM session_messages m, root
   WHERE m.session_id = root.session_id AND m.type = 'session.outcome_judged'
   ORDER BY m.seq DESC LIMIT 50)
SELECT count(*) FROM newest n JOIN agent_run_queue b ON b.id = n.run_id, root
 WHERE n.returned AND (b.id = root.id OR b.resumes AND b.started_at >= root.started_at)
"""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A verdict on one answer, and whether it is sent back to the agent."""

    event: NewEvent
    status: str
    returned: bool


def close(turn: Turn, answer: ModelAnswer, end: EndRun) -> Finished:
    """End the run with this answer, or continue it if the grader sends the answer back."""
    result: dict[str, Any] = {
        "text": answer.text,
        "event_id": str(answer.event_id),
        "model": answer.model,
    }
    if answer.data is not None:
        result["data"] = answer.data
    reason = "end_turn"
    if answer.truncated:
        result["truncated"], reason = True, "max_tokens"
    if turn.outcome is None:
        return end(turn, events=_unwritten(answer), result=result, stop_reason=reason)
    _write(turn, [*turn.note_events(), *_unwritten(answer)])
    turn.note_is_stored()
    judgement = judge(turn, turn.outcome, answer)
    if not judgement.returned:
        result["outcome"] = judgement.status
        return end(turn, events=[judgement.event], result=result, stop_reason=reason)
    _write(turn, [judgement.event])
    crash_point("after_return")
    retry_on_disconnect(lambda again: run_queue.step(turn.claim))
    return CONTINUES


def _unwritten(answer: ModelAnswer) -> list[NewEvent]:
    return [] if answer.stored else answer.events()


def _write(turn: Turn, events: list[NewEvent]) -> None:
    if events:
        claim = turn.claim
        append_with_retry(turn.session_id, events, epoch=claim.epoch, run_id=claim.run_id)


def find_unjudged(turn: Turn) -> ModelAnswer | None:
    """Return the answer that a lost worker stored without a verdict, so it is judged, not repeated."""
    lines = read_newest(turn.session_id, turn.basis.snapshot_seq, SEARCHED_LINES)
    known = [line for line in lines if line.taken or line.run_id]
    if not known or known[-1].type != E.AGENT_MESSAGE or known[-1].run_id != turn.claim.run_id:
        return None
    if known[-1].payload.get("partial"):
        return None  # Its stream broke off, so it is no answer.
    event = SessionEvent.objects.get(session_id=turn.session_id, seq=known[-1].seq)
    return ModelAnswer(
        provider=turn.version.provider,
        model=event.payload.get("model", ""),
        event_id=event.pk,
        text=event.payload["text"],
        truncated=bool(event.payload.get("truncated")),
        stored=True,
    )


def judge(turn: Turn, outcome: Outcome, answer: ModelAnswer) -> Judgement:
    """Ask the grader. If it fails, the verdict is unclear and the run ends as without an outcome."""
    provider, model = _grader(turn, outcome)
    crash_point("before_grading")
    try:
        if provider in GRADERS:
            record = _recent_conversation(turn, MAX_TOKENS)
            verdict = grade_by_plugin(provider, outcome, answer=answer.text, record=record)
        else:
            request = _request(turn, outcome, answer, provider, model)
            reply = complete(turn, provider, request, purpose=ModelCall.Purpose.GRADE)
            verdict = read_verdict(reply, outcome)
    except (ProviderFault, Invalid) as fault:
        log.warning("grader_failed", session_id=str(turn.session_id), why=fault.detail)
        verdict = unclear(f"The grader failed: {fault.detail}")
    crash_point("after_grading")
    return _judgement(turn, outcome, answer.event_id, verdict)


def count_returns(run_id: UUID) -> int:
    """Count how often the turn of this run was sent back."""
    return int(row(COUNT_RETURNS, [run_id])[0])


def _grader(turn: Turn, outcome: Outcome) -> tuple[str, str]:
    if outcome.grader:
        return outcome.grader.provider, outcome.grader.model
    return turn.version.provider, turn.version.model


def _request(
    turn: Turn, outcome: Outcome, answer: ModelAnswer, provider: str, model: str
) -> ModelRequest:
    room = token_budget(turn.version, provider, model)
    text = clip_for_model(answer.text, min(MAX_ANSWER_CHARS, room.usable))
    tokens_left = min(MAX_TOKENS, room.usable // 2) - estimate_tokens(text)
    return grade_request(
        model,
        outcome,
        record=_recent_conversation(turn, tokens_left),
        answer=text,
        mark=fence_mark(turn.session_id),
    )


def _recent_conversation(turn: Turn, tokens: int) -> str:
    """Return the end of the conversation that fits into this many tokens."""
    basis = turn.basis
    lines = read_newest(turn.session_id, basis.snapshot_seq, MAX_LINES, carried=basis.carried)
    kept: list[str] = []
    for text in reversed(list(transcript([line for line in lines if line.taken or line.run_id]))):
        tokens -= estimate_tokens(text) + 1
        if tokens < 0:
            kept.append("(Earlier messages are left out.)")
            break
        kept.append(text)
    return "\n\n".join(reversed(kept))


def _judgement(turn: Turn, outcome: Outcome, answer_id: UUID, verdict: Verdict) -> Judgement:
    returns = count_returns(turn.claim.run_id)
    returned = verdict.status == "not_met" and returns < outcome.max_returns
    provider, model = _grader(turn, outcome)
    payload = {
        "status": verdict.status,
        "returned": returned,
        "returns": returns + returned,
        "max_returns": outcome.max_returns,
        "statement": outcome.statement,
        "criteria": verdict.criteria,
        "feedback": verdict.feedback,
        "why": verdict.why,
        "grader": {"provider": provider, "model": model},
        "answer_event_id": str(answer_id),
    }
    event = NewEvent(
        type=SessionEvent.Type.OUTCOME_JUDGED,
        payload=payload,
        # The database refuses a second verdict on the same answer.
        dedupe_key=f"verdict:{answer_id}",
    )
    return Judgement(event=event, status=verdict.status, returned=returned)
