"""Ends a turn with its answer, or sends it back: the answer is kept first, then judged, then closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sessions_app import lanes, ledger
from sessions_app.answer import Answer
from sessions_app.context.lines import read_lines
from sessions_app.lanes import Finished
from sessions_app.log import NewEvent, append_surely
from sessions_app.models import SessionEvent
from sessions_app.outcomes.judging import judge
from sessions_app.outcomes.stated import Outcome
from sessions_app.points import reached
from sessions_app.statements import patiently
from sessions_app.turn import Turn

E = SessionEvent.Type
End = Callable[..., Finished]
#: Lines to look back for an answer that nobody has judged; changes of queued messages may follow it.
LOOK_BACK = 20
GOES_ON = Finished(goes_on=True, next=None)


def close(turn: Turn, answer: Answer, end: End) -> Finished:
    """End the run with this answer. It goes on when the grader sends it back, or somebody said more."""
    result = {"text": answer.text, "event_id": str(answer.event_id), "model": answer.model}
    if turn.outcome is None:
        return end(turn, events=_unwritten(answer), result=result)
    return _judged(turn, turn.outcome, answer, result, end)


def _judged(
    turn: Turn, outcome: Outcome, answer: Answer, result: dict[str, Any], end: End
) -> Finished:
    _write(turn, _unwritten(answer))
    judgement = judge(turn, outcome, answer)
    if not judgement.returned:
        result["outcome"] = judgement.status
        return end(turn, events=[judgement.event], result=result)
    _write(turn, [judgement.event])
    reached("after_return")
    patiently(lambda again: lanes.step(turn.claim))
    return GOES_ON


def _unwritten(answer: Answer) -> list[NewEvent]:
    return [] if answer.stored else [ledger.message_event(answer)]


def _write(turn: Turn, events: list[NewEvent]) -> None:
    if events:
        claim = turn.claim
        append_surely(turn.session_id, events, epoch=claim.epoch, run_id=claim.run_id)


def unjudged(turn: Turn) -> Answer | None:
    """The answer that a lost run left in the log without a verdict: it is judged, not asked again."""
    lines = read_lines(turn.session_id, turn.ground.snapshot_seq, LOOK_BACK)
    known = [line for line in lines if line.taken or line.run_id]
    if not known or known[-1].type != E.AGENT_MESSAGE or known[-1].run_id != turn.claim.run_id:
        return None
    event = SessionEvent.objects.get(session_id=turn.session_id, seq=known[-1].seq)
    return Answer(
        provider=turn.version.provider,
        model=event.payload.get("model", ""),
        event_id=event.pk,
        text=event.payload["text"],
        stored=True,
    )
