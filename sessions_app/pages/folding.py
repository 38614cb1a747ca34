"""Calls in a row, told as one line that opens. `frontend/src/chat/steps.ts` folds the same."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from sessions_app.pages.lines import Call, Line
from sessions_app.pages.words import duration

#: Fewer are as short as their fold.
FEWEST = 3
OVER = frozenset({"completed", "error", "denied", "cancelled"})


@dataclass(kw_only=True)
class Steps(Line):
    """Calls that need nobody's eye any more."""

    kind = "steps"
    calls: list[Call]

    @property
    def words(self) -> str:
        spent = sum(call.duration_ms or 0 for call in self.calls)
        return " · ".join(filter(None, (f"{len(self.calls)} steps", duration(spent or None))))

    @property
    def failed(self) -> int:
        return sum(call.state != "completed" for call in self.calls)


def fold(lines: list[Line], *, is_idle: bool) -> list[Line]:
    """The lines with every row of finished calls in one, but for the row that still grows."""
    told: list[Line] = []
    for is_row, group in groupby(lines, _is_step):
        row = list(group)
        grows = row[-1] is lines[-1] and not is_idle
        if is_row and len(row) >= FEWEST and not grows:
            calls = [line for line in row if isinstance(line, Call)]
            told.append(Steps(seq=row[0].seq, at=row[0].at, calls=calls))
        else:
            told += row
    return told


def _is_step(line: Line) -> bool:
    return isinstance(line, Call) and line.child is None and line.state in OVER
