"""What one compaction is to do: which lines it covers, how long its summary may be, by which model."""

from __future__ import annotations

from dataclasses import dataclass

from agents.models_catalog import find_model
from agents.providers.estimate import estimate_tokens
from sessions_app.compaction.cut import Cut, Keep, choose_cut, line_tokens
from sessions_app.compaction.prompts import batches
from sessions_app.context.builder import Context, build_context
from sessions_app.context.fencing import mark_of
from sessions_app.context.lines import read_oldest
from sessions_app.models import ContextSnapshot
from sessions_app.turn import Turn

Trigger = ContextSnapshot.Trigger
#: Lines that one compaction reads at most; what is left waits for the next.
MOST_LINES = 4_000
#: How often a model is asked at most for one summary.
MOST_BATCHES = 8
#: With less than this to gain, a compaction by itself is not worth its price.
LEAST_SHARE = 10
LEAST_KEPT = LEAST_SUMMARY = 150


@dataclass(frozen=True, kw_only=True)
class Plan:
    trigger: ContextSnapshot.Trigger
    provider: str
    model: str
    #: What unforgeable mark stands around the material.
    mark: str
    context: Context
    cut: Cut
    #: Tokens of the summary.
    target: int
    records: list[str]

    @property
    def tokens_after(self) -> int:
        """Without the summary, which is still to come."""
        kept = sum(line_tokens(line) for line in self.cut.kept if line.taken or line.run_id)
        return self.context.fixed + kept


def plan_for(
    turn: Turn, provider: str, model: str, trigger: ContextSnapshot.Trigger
) -> Plan | None:
    """A plan that ends below the threshold; None when there is nothing to gain."""
    context = build_context(
        turn.subject, provider, model, memories=turn.memories, ceiling=turn.ceiling
    )
    ground = turn.ground
    lines = read_oldest(turn.session_id, ground.snapshot_seq, MOST_LINES, carried=ground.carried)
    is_all = len(lines) - len(ground.carried) < MOST_LINES
    target = _target(turn, context, trigger)
    size = _batch_size(provider, model, target, ground.summary)
    keep = _keep(turn, context, trigger, target) if is_all else Keep()
    cut = choose_cut(lines, keep)
    while cut and len(records := batches(cut.covered, size)) > MOST_BATCHES:
        # Too much for one go: the older half now, the rest next time.
        cut = choose_cut(lines[: len(cut.covered) * MOST_BATCHES // len(records)], Keep())
    if cut is None or not records:
        return None
    if trigger == Trigger.AUTO and _gain(cut) < context.room.threshold // LEAST_SHARE:
        return None
    return Plan(
        trigger=trigger,
        provider=provider,
        model=model,
        mark=mark_of(turn.session_id),
        context=context,
        cut=cut,
        # A summary is shorter than what it stands for.
        target=max(LEAST_SUMMARY, min(target, (_gain(cut) + estimate_tokens(ground.summary)) // 2)),
        records=records,
    )


def _gain(cut: Cut) -> int:
    return sum(line_tokens(line) for line in cut.covered)


def _target(turn: Turn, context: Context, trigger: ContextSnapshot.Trigger) -> int:
    wished = turn.wishes.get("target_token_count") if trigger == Trigger.MANUAL else None
    usual = context.room.summary
    return max(LEAST_SUMMARY, min(usual, wished // 2)) if wished else usual


def _keep(turn: Turn, context: Context, trigger: ContextSnapshot.Trigger, target: int) -> Keep:
    """Half of what is free below the threshold, so that there is room until the next time."""
    free = context.room.threshold - context.fixed - target
    tokens = max(LEAST_KEPT, free // 2)
    if trigger == Trigger.OVERFLOW:
        # The window is smaller than it is said to be.
        tokens = max(LEAST_KEPT, min(tokens, (context.tokens - context.fixed) // 3))
    lines = context.limit // 2
    if trigger != Trigger.MANUAL:
        return Keep(tokens=tokens, lines=lines)
    wishes = turn.wishes
    if "keep_recent_messages" in wishes:
        return Keep(messages=wishes["keep_recent_messages"], settled=True)
    spoken = sum(line_tokens(line) for line in context.lines)
    wished = wishes.get("target_token_count")
    tokens = min(tokens, wished - target if wished else spoken // 4)
    # Without a wish, the newest turn stays.
    return Keep(tokens=max(0, tokens), lines=lines, settled=wished is not None)


def _batch_size(provider: str, model: str, target: int, before: str) -> int:
    """What of a record fits into one request beside the summary before and the answer."""
    window = find_model(provider, model).window
    return max(500, window * 7 // 10 - estimate_tokens(before) - 2 * target)
