"""Plans a compaction: where the conversation is cut, what is kept, and how long the summary may be.

A cut lies between turns where possible, and never between a call and its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from agents.providers.base import estimate_tokens
from sessions_app.context.builder import Context, build_context
from sessions_app.context.compaction.summaries import batches
from sessions_app.context.conversation import RESULT_CHARS, LogEntry, is_visible, read_oldest
from sessions_app.context.taint import TOOL_USES
from sessions_app.harness.turn import Turn
from sessions_app.models import ContextSnapshot, SessionEvent
from tools_app.taint import fence_mark

EventType, Trigger = SessionEvent.Type, ContextSnapshot.Trigger
CHANGES = frozenset({EventType.USER_MESSAGE_EDITED, EventType.USER_MESSAGE_WITHDRAWN})
MESSAGES = frozenset({EventType.USER_MESSAGE, EventType.AGENT_MESSAGE})
ENTRY_OVERHEAD = 8
#: Entries that one compaction reads at most. The rest waits for the next one.
MAX_ENTRIES = 4_000
#: How many requests one summary may take.
MAX_BATCHES = 8
#: An automatic compaction must gain at least a tenth of the threshold to be worth its price.
MIN_GAIN_PART = 10
MIN_KEPT = MIN_SUMMARY = 150


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What the summary will cover, and what stays as it is."""

    covered: list[LogEntry]
    kept: list[LogEntry]

    @property
    def last_seq(self) -> int:
        return max(entry.seq for entry in self.covered)

    @property
    def carried(self) -> list[int]:
        """Return kept entries that are older than a covered one: waiting messages, or the task of
        the turn.
        """
        return sorted(entry.seq for entry in self.kept if entry.seq < self.last_seq)

    @property
    def first_kept_seq(self) -> int:
        visible = [entry.seq for entry in self.kept if is_visible(entry)]
        return visible[0] if visible else self.last_seq + 1


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How much to keep: as much as the tokens allow, or a number of messages."""

    tokens: int = 0
    messages: int | None = None
    #: At most this many entries, because a context is read only so far back.
    entries: int = 10**6
    #: Nothing is being answered, so even the newest turn may be covered.
    settled: bool = False


def entry_tokens(entry: LogEntry) -> int:
    """Return the estimated tokens of an entry in the context."""
    payload = entry.payload
    text = str(payload.get("text") or "")
    if entry.type in TOOL_USES:
        text = f"{payload['name']}{orjson.dumps(payload['input']).decode()}"
    elif entry.type == EventType.AGENT_TOOL_RESULT:
        output = payload.get("output")
        text = output if isinstance(output, str) else orjson.dumps(output).decode()
        text = (text or str(payload.get("error") or ""))[:RESULT_CHARS]
    return estimate_tokens(text) + ENTRY_OVERHEAD


def choose_cut(entries: Sequence[LogEntry], keep: Retention) -> Cut | None:
    """Return the cut that keeps as much as it may, or None if nothing can be covered."""
    visible, pending = _split(entries)
    safe = _safe_places(visible)
    sizes = _sizes_from(visible)
    starts = [place for place in safe if _is_turn_start(visible, place)]
    ends = [len(visible)] if keep.settled and len(visible) in safe else []
    if keep.messages is not None:
        latest = _latest(visible, keep.messages)
        before = [place for place in [*starts, *ends] if 0 < place <= latest]
        return _cut(visible, pending, max(before)) if before else None
    fitting = [
        place
        for place in [*starts, *ends]
        if sizes[place] <= keep.tokens and len(visible) - place <= keep.entries
    ]
    if fitting:
        return _cut(visible, pending, min(fitting))
    inside = _inside(visible, safe, sizes, keep)
    if inside:
        task, place = inside
        return _cut(visible, pending, place, task)
    return _cut(visible, pending, max(starts)) if starts else None


def _split(entries: Sequence[LogEntry]) -> tuple[list[LogEntry], list[LogEntry]]:
    """Split what the agent has seen from waiting messages and all edits and withdrawals."""
    visible: list[LogEntry] = []
    pending: list[LogEntry] = []
    for entry in entries:
        waits = entry.type == EventType.USER_MESSAGE and not entry.taken
        (pending if waits or entry.type in CHANGES else visible).append(entry)
    return visible, pending


def _safe_places(visible: Sequence[LogEntry]) -> set[int]:
    """Return every place that no call spans together with its results."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, entry in enumerate(visible):
        if entry.type in TOOL_USES or entry.type == EventType.AGENT_TOOL_RESULT:
            call = entry.payload["tool_use_id"]
            first.setdefault(call, place)
            last[call] = place
    spanned = {place for call in first for place in range(first[call] + 1, last[call] + 1)}
    return {place for place in range(1, len(visible) + 1) if place not in spanned}


def _sizes_from(visible: Sequence[LogEntry]) -> list[int]:
    """Return the tokens from each place to the end."""
    sizes = [0]
    for entry in reversed(visible):
        sizes.append(sizes[-1] + entry_tokens(entry))
    return sizes[::-1]


def _is_turn_start(visible: Sequence[LogEntry], place: int) -> bool:
    return (
        place < len(visible)
        and visible[place].type == EventType.USER_MESSAGE
        and visible[place - 1].type != EventType.USER_MESSAGE
    )


def _latest(visible: Sequence[LogEntry], messages: int) -> int:
    """Return the last place that still keeps so many messages."""
    places = [place for place, entry in enumerate(visible) if entry.type in MESSAGES]
    if not messages:
        return len(visible)
    return places[-messages] if len(places) >= messages else 0


def _inside(
    visible: Sequence[LogEntry], safe: set[int], sizes: Sequence[int], keep: Retention
) -> tuple[list[LogEntry], int] | None:
    """Find a cut within the newest turn, which is too long by itself. Its task is kept."""
    begins = max(
        (p for p, entry in enumerate(visible) if entry.type == EventType.USER_MESSAGE), default=-1
    )
    first = begins
    while first > 0 and visible[first - 1].type == EventType.USER_MESSAGE:
        first -= 1
    task = list(visible[first : begins + 1]) if begins >= 0 else []
    cost = sum(entry_tokens(entry) for entry in task)
    places = [
        place
        for place in sorted(safe)
        if begins + 1 < place < len(visible)
        and visible[place].type != EventType.AGENT_TOOL_RESULT
        and sizes[place] + cost <= keep.tokens
        and len(visible) - place <= keep.entries
    ]
    return (task, places[0]) if places else None


def _cut(
    visible: Sequence[LogEntry],
    pending: Sequence[LogEntry],
    place: int,
    task: Sequence[LogEntry] = (),
) -> Cut | None:
    spared = {entry.seq for entry in task}
    covered = [entry for entry in visible[:place] if entry.seq not in spared]
    kept = [*task, *visible[place:]]
    if not covered:
        return None
    goes = _over(pending, {entry.seq for entry in kept})
    # Nothing after the newest covered entry is covered: that would only add carried entries.
    last = max(entry.seq for entry in covered)
    for entry in pending:
        (covered if entry in goes and entry.seq < last else kept).append(entry)
    return Cut(covered=covered, kept=kept)


def _over(pending: Sequence[LogEntry], kept: set[int]) -> list[LogEntry]:
    """Return withdrawn messages, and changes of messages that are not kept."""
    withdrawn = {
        e.payload.get("seq") for e in pending if e.type == EventType.USER_MESSAGE_WITHDRAWN
    }
    waits = {e.seq for e in pending if e.type == EventType.USER_MESSAGE and e.seq not in withdrawn}
    return [
        entry
        for entry in pending
        if entry.seq in withdrawn
        or (entry.type in CHANGES and entry.payload.get("seq") not in waits | kept)
    ]


@dataclass(frozen=True, kw_only=True)
class CompactionPlan:
    trigger: ContextSnapshot.Trigger
    provider: str
    model: str
    #: The unforgeable mark around the material in a request.
    mark: str
    context: Context
    cut: Cut
    #: Tokens of the summary.
    target: int
    records: list[str]

    @property
    def tokens_after(self) -> int:
        """Return the tokens after compaction, without the summary, which is not written yet."""
        kept = sum(entry_tokens(entry) for entry in self.cut.kept if entry.taken or entry.run_id)
        return self.context.fixed + kept


def plan_compaction(
    turn: Turn, provider: str, model: str, trigger: ContextSnapshot.Trigger
) -> CompactionPlan | None:
    """Return a plan that ends below the threshold, or None if there is nothing to gain."""
    context = build_context(
        turn.inputs, provider, model, memories=turn.memories, ceiling=turn.ceiling
    )
    basis = turn.basis
    entries = read_oldest(turn.session_id, basis.snapshot_seq, MAX_ENTRIES, carried=basis.carried)
    is_all = len(entries) - len(basis.carried) < MAX_ENTRIES
    target = _target(turn, context, trigger)
    size = _batch_size(context, target, basis.summary)
    keep = _retention(turn, context, trigger, target) if is_all else Retention()
    cut = choose_cut(entries, keep)
    while cut and len(records := batches(cut.covered, size)) > MAX_BATCHES:
        # Too much for one compaction: cover the older part now, the rest next time.
        cut = choose_cut(entries[: len(cut.covered) * MAX_BATCHES // len(records)], Retention())
    if cut is None or not records:
        return None
    if trigger == Trigger.AUTO and _gain(cut) < context.budget.threshold // MIN_GAIN_PART:
        return None
    return CompactionPlan(
        trigger=trigger,
        provider=provider,
        model=model,
        mark=fence_mark(turn.session_id),
        context=context,
        cut=cut,
        # A summary must be shorter than what it covers.
        target=max(MIN_SUMMARY, min(target, (_gain(cut) + estimate_tokens(basis.summary)) // 2)),
        records=records,
    )


def _gain(cut: Cut) -> int:
    return sum(entry_tokens(entry) for entry in cut.covered)


def _target(turn: Turn, context: Context, trigger: ContextSnapshot.Trigger) -> int:
    requested = (
        turn.compaction_options.get("target_token_count") if trigger == Trigger.MANUAL else None
    )
    usual = context.budget.summary
    return max(MIN_SUMMARY, min(usual, requested // 2)) if requested else usual


def _retention(
    turn: Turn, context: Context, trigger: ContextSnapshot.Trigger, target: int
) -> Retention:
    """Keep half of what is free below the threshold, which leaves room until the next compaction."""
    free = context.budget.threshold - context.fixed - target
    tokens = max(MIN_KEPT, free // 2)
    if trigger == Trigger.OVERFLOW:
        # The window is smaller than the catalog says.
        tokens = max(MIN_KEPT, min(tokens, (context.tokens - context.fixed) // 3))
    most = context.limit // 2
    if trigger != Trigger.MANUAL:
        return Retention(tokens=tokens, entries=most)
    options = turn.compaction_options
    if "keep_recent_messages" in options:
        return Retention(messages=options["keep_recent_messages"], settled=True)
    conversation = sum(entry_tokens(entry) for entry in context.entries)
    requested = options.get("target_token_count")
    tokens = min(tokens, requested - target if requested else conversation // 4)
    # Unless a target was given, the newest turn stays.
    return Retention(tokens=max(0, tokens), entries=most, settled=requested is not None)


def _batch_size(context: Context, target: int, before: str) -> int:
    """Return the tokens of a record that fit one request, beside the last summary and the answer."""
    window = context.budget.window
    return max(500, window * 7 // 10 - estimate_tokens(before) - 2 * target)
