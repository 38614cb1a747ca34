"""Makes the summary of a plan, and gives it one more chance when it is not good enough."""

from __future__ import annotations

from config.faults import CompactionFailed
from sessions_app.compaction.plan import Plan
from sessions_app.compaction.prompts import MISSING, summary_request
from sessions_app.compaction.quality import expected_of, judge
from sessions_app.completing import complete
from sessions_app.turn import Turn
from tenants.models import ModelCall


def summarise(turn: Turn, plan: Plan) -> str:
    """The summary of all that is covered, what the snapshot before it says folded in."""
    *earlier, last = plan.records
    before = turn.ground.summary
    for record in earlier:
        before = _ask(turn, plan, record, before)
    expected = expected_of(plan.cut.covered, plan.target)
    summary = _ask(turn, plan, last, before)
    verdict = judge(summary, expected, plan.target)
    if not verdict.is_good:
        names = "; ".join(verdict.missing) or "what matters"
        missing = MISSING.format(why=verdict.why, names=names)
        summary = _ask(turn, plan, last, before, missing)
        verdict = judge(summary, expected, plan.target)
    if not verdict.is_good:
        raise CompactionFailed(
            f"The context could not be compacted: {plan.model} gave no good summary, {verdict.why}. "
            "Nothing was changed."
        )
    return summary


def _ask(turn: Turn, plan: Plan, record: str, before: str, missing: str = "") -> str:
    request = summary_request(
        plan.model,
        record,
        mark=plan.mark,
        target=plan.target,
        before=before,
        missing=missing,
    )
    return complete(turn, plan.provider, request, purpose=ModelCall.Purpose.SUMMARY)
