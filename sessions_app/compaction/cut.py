"""Where a conversation may be cut: between turns if it can be, never between a call and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from agents.providers.estimate import estimate_tokens
from sessions_app.models import SessionEvent
from sessions_app.view import RESULT_CHARS
from sessions_app.wording import Line, is_told

E = SessionEvent.Type
USES = frozenset({E.AGENT_TOOL_USE, E.AGENT_CUSTOM_TOOL_USE})
CHANGES = frozenset({E.USER_MESSAGE_EDITED, E.USER_MESSAGE_WITHDRAWN})
MESSAGES = frozenset({E.USER_MESSAGE, E.AGENT_MESSAGE})
TOKENS_PER_LINE = 8


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What the summary stands for, and what stays as it is."""

    covered: list[Line]
    kept: list[Line]

    @property
    def last_seq(self) -> int:
        return max(line.seq for line in self.covered)

    @property
    def carried(self) -> list[int]:
        """Kept, although older than something covered: it waited, or is the task of the turn."""
        return sorted(line.seq for line in self.kept if line.seq < self.last_seq)

    @property
    def first_kept_seq(self) -> int:
        told = [line.seq for line in self.kept if is_told(line)]
        return told[0] if told else self.last_seq + 1


@dataclass(frozen=True, kw_only=True)
class Keep:
    """How much is to stay: as much as these tokens allow, or just so many messages."""

    tokens: int = 0
    messages: int | None = None
    #: And no more lines than these: a context is read only so far back.
    lines: int = 10**6
    #: Nothing is being answered, so that even the newest turn may go.
    settled: bool = False


def line_tokens(line: Line) -> int:
    """About what a line costs in the context."""
    payload = line.payload
    text = str(payload.get("text") or "")
    if line.type in USES:
        text = f"{payload['name']}{orjson.dumps(payload['input']).decode()}"
    elif line.type == E.AGENT_TOOL_RESULT:
        said = payload.get("output")
        text = said if isinstance(said, str) else orjson.dumps(said).decode()
        text = (text or str(payload.get("error") or ""))[:RESULT_CHARS]
    return estimate_tokens(text) + TOKENS_PER_LINE


def choose_cut(lines: Sequence[Line], keep: Keep) -> Cut | None:
    """The cut that keeps as much as may be kept; None when nothing can be covered."""
    told, apart = _told(lines)
    safe = _safe_places(told)
    sizes = _sizes_from(told)
    starts = [place for place in safe if _is_turn_start(told, place)]
    ends = [len(told)] if keep.settled and len(told) in safe else []
    if keep.messages is not None:
        latest = _latest(told, keep.messages)
        before = [place for place in [*starts, *ends] if 0 < place <= latest]
        return _cut(told, apart, max(before)) if before else None
    fitting = [
        place
        for place in [*starts, *ends]
        if sizes[place] <= keep.tokens and len(told) - place <= keep.lines
    ]
    if fitting:
        return _cut(told, apart, min(fitting))
    inside = _inside(told, safe, sizes, keep)
    if inside:
        task, place = inside
        return _cut(told, apart, place, task)
    return _cut(told, apart, max(starts)) if starts else None


def _told(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """What the agent was told; and apart from it what waits, with all changes of messages."""
    told: list[Line] = []
    apart: list[Line] = []
    for line in lines:
        waits = line.type == E.USER_MESSAGE and not line.taken
        (apart if waits or line.type in CHANGES else told).append(line)
    return told, apart


def _safe_places(told: Sequence[Line]) -> set[int]:
    """Every place that no call spans together with its results."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, line in enumerate(told):
        if line.type in USES or line.type == E.AGENT_TOOL_RESULT:
            call = line.payload["tool_use_id"]
            first.setdefault(call, place)
            last[call] = place
    spanned = {place for call in first for place in range(first[call] + 1, last[call] + 1)}
    return {place for place in range(1, len(told) + 1) if place not in spanned}


def _sizes_from(told: Sequence[Line]) -> list[int]:
    """The tokens from each place to the end."""
    sizes = [0]
    for line in reversed(told):
        sizes.append(sizes[-1] + line_tokens(line))
    return sizes[::-1]


def _is_turn_start(told: Sequence[Line], place: int) -> bool:
    return (
        place < len(told)
        and told[place].type == E.USER_MESSAGE
        and told[place - 1].type != E.USER_MESSAGE
    )


def _latest(told: Sequence[Line], messages: int) -> int:
    """The last place that still keeps so many messages."""
    places = [place for place, line in enumerate(told) if line.type in MESSAGES]
    if not messages:
        return len(told)
    return places[-messages] if len(places) >= messages else 0


def _inside(
    told: Sequence[Line], safe: set[int], sizes: Sequence[int], keep: Keep
) -> tuple[list[Line], int] | None:
    """A place within the newest turn, which is too long by itself. Its task is kept."""
    begins = max((p for p, line in enumerate(told) if line.type == E.USER_MESSAGE), default=-1)
    first = begins
    while first > 0 and told[first - 1].type == E.USER_MESSAGE:
        first -= 1
    task = list(told[first : begins + 1]) if begins >= 0 else []
    cost = sum(line_tokens(line) for line in task)
    places = [
        place
        for place in sorted(safe)
        if begins + 1 < place < len(told)
        and told[place].type != E.AGENT_TOOL_RESULT
        and sizes[place] + cost <= keep.tokens
        and len(told) - place <= keep.lines
    ]
    return (task, places[0]) if places else None


def _cut(
    told: Sequence[Line], apart: Sequence[Line], place: int, task: Sequence[Line] = ()
) -> Cut | None:
    spared = {line.seq for line in task}
    covered = [line for line in told[:place] if line.seq not in spared]
    kept = [*task, *told[place:]]
    if not covered:
        return None
    goes = _over(apart, {line.seq for line in kept})
    # Nothing past the newest covered event: it would only make more of the kept ones carried.
    last = max(line.seq for line in covered)
    for line in apart:
        (covered if line in goes and line.seq < last else kept).append(line)
    return Cut(covered=covered, kept=kept)


def _over(apart: Sequence[Line], kept: set[int]) -> list[Line]:
    """Messages that were taken back, and changes of messages that are not kept."""
    withdrawn = {l.payload.get("seq") for l in apart if l.type == E.USER_MESSAGE_WITHDRAWN}
    waits = {l.seq for l in apart if l.type == E.USER_MESSAGE and l.seq not in withdrawn}
    return [
        line
        for line in apart
        if line.seq in withdrawn
        or (line.type in CHANGES and line.payload.get("seq") not in waits | kept)
    ]
