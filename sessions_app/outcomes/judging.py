"""Judges the last answer of a run by the session's outcome, once, and counts returns from the log."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import structlog

from agents.providers.base import ModelRequest
from agents.providers.estimate import estimate_tokens
from config.faults import Invalid, ProviderFault
from sessions_app.answer import Answer
from sessions_app.compaction.prompts import transcript
from sessions_app.completing import complete
from sessions_app.context.fencing import mark_of
from sessions_app.context.lines import read_lines
from sessions_app.context.subject import room_of
from sessions_app.log import NewEvent
from sessions_app.models import SessionEvent
from sessions_app.outcomes.stated import Outcome
from sessions_app.outcomes.verdict import Verdict, read_verdict, unclear
from sessions_app.outcomes.words import grade_request
from sessions_app.points import reached
from sessions_app.statements import row
from sessions_app.turn import Turn
from tenants.models import ModelCall
from tools_app.clip import clip_for_model

log = structlog.get_logger(__name__)

#: What of a conversation a grader reads at most.
MOST_LINES, MOST_TOKENS = 200, 12_000
ANSWER_CHARS = 20_000
# By the index of verdicts. A run that goes on after an answer belongs to the turn that waited.
RETURNS = """
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
    """A verdict on one answer, and whether the agent has to go on."""

    event: NewEvent
    status: str
    returned: bool


def judge(turn: Turn, outcome: Outcome, answer: Answer) -> Judgement:
    """Ask the grader. Whatever is wrong with it ends the run as it would have ended without one."""
    provider, model = _grader(turn, outcome)
    reached("before_grading")
    try:
        request = _request(turn, outcome, answer, provider, model)
        said = complete(turn, provider, request, purpose=ModelCall.Purpose.GRADE)
        verdict = read_verdict(said, outcome)
    except (ProviderFault, Invalid) as fault:
        log.warning("grader_failed", session_id=str(turn.session_id), why=fault.detail)
        verdict = unclear(f"The grader failed: {fault.detail}")
    reached("after_grading")
    return _judgement(turn, outcome, answer.event_id, verdict)


def returns_made(run_id: UUID) -> int:
    """How often the turn of this run was sent back already."""
    return int(row(RETURNS, [run_id])[0])


def _grader(turn: Turn, outcome: Outcome) -> tuple[str, str]:
    if outcome.grader:
        return outcome.grader.provider, outcome.grader.model
    return turn.version.provider, turn.version.model


def _request(
    turn: Turn, outcome: Outcome, answer: Answer, provider: str, model: str
) -> ModelRequest:
    room = room_of(turn.version, provider, model)
    said = clip_for_model(answer.text, min(ANSWER_CHARS, room.usable))
    left = min(MOST_TOKENS, room.usable // 2) - estimate_tokens(said)
    return grade_request(
        model, outcome, record=_newest(turn, left), answer=said, mark=mark_of(turn.session_id)
    )


def _newest(turn: Turn, tokens: int) -> str:
    """The end of the conversation, as much of it as there is room for."""
    ground = turn.ground
    lines = read_lines(turn.session_id, ground.snapshot_seq, MOST_LINES, carried=ground.carried)
    kept: list[str] = []
    for told in reversed(list(transcript([line for line in lines if line.taken or line.run_id]))):
        tokens -= estimate_tokens(told) + 1
        if tokens < 0:
            kept.append("(Earlier messages are left out.)")
            break
        kept.append(told)
    return "\n\n".join(reversed(kept))


def _judgement(turn: Turn, outcome: Outcome, answer_id: UUID, verdict: Verdict) -> Judgement:
    made = returns_made(turn.claim.run_id)
    returned = verdict.status == "not_met" and made < outcome.max_returns
    provider, model = _grader(turn, outcome)
    payload = {
        "status": verdict.status,
        "returned": returned,
        "returns": made + returned,
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
        # The database itself refuses a second verdict on the same answer.
        dedupe_key=f"verdict:{answer_id}",
    )
    return Judgement(event=event, status=verdict.status, returned=returned)
