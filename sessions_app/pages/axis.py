"""Places moments on a line from 0 to 1000, with the long pauses between busy stretches cut short."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sessions_app.pages.words import lasting

WIDTH = 1000
#: A bar is never thinner than this, or nobody sees it.
THINNEST = 3
TICKS = 5
#: A pause is cut when it is longer than this share of the busy time, to so much of it.
LONG, SHORT = 0.15, 0.04
SHORTEST_CUT = timedelta(seconds=2)

Stretch = tuple[datetime, datetime]


@dataclass(frozen=True, kw_only=True)
class Leg:
    """A part of the line that runs evenly."""

    start: datetime
    end: datetime
    x: float
    width: float
    is_cut: bool


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A pause that the line leaves out."""

    x: int
    words: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    legs: list[Leg]

    def x(self, moment: datetime) -> int:
        """Where a moment lies. What is before or after the line lies at its end."""
        for leg in self.legs:
            if moment <= leg.end:
                span = (leg.end - leg.start) or timedelta(microseconds=1)
                share = max(0.0, (moment - leg.start) / span)
                return round(leg.x + share * leg.width)
        return WIDTH

    def bar(self, start: datetime, end: datetime) -> tuple[int, int]:
        """The left end and the width of a bar, which is never outside and never nothing."""
        left = min(self.x(start), WIDTH - THINNEST)
        return left, max(THINNEST, self.x(end) - left)

    @property
    def ticks(self) -> list[str]:
        """Time since the beginning at the left end of each fifth of the line."""
        first = self.legs[0].start
        return [lasting(self._at(WIDTH * nth / TICKS) - first) for nth in range(TICKS)]

    @property
    def cuts(self) -> list[Cut]:
        return [
            Cut(x=round(leg.x + leg.width / 2), words=lasting(leg.end - leg.start))
            for leg in self.legs
            if leg.is_cut
        ]

    def _at(self, x: float) -> datetime:
        for leg in self.legs:
            if x <= leg.x + leg.width:
                share = (x - leg.x) / leg.width if leg.width else 0
                return leg.start + (leg.end - leg.start) * share
        return self.legs[-1].end


def draw_axis(stretches: Iterable[Stretch]) -> Axis | None:
    """A line over these stretches of time, or None when there is none."""
    busy = _joined(stretches)
    if not busy:
        return None
    worked = sum((end - start for start, end in busy), timedelta()) or timedelta(milliseconds=1)
    legs: list[tuple[Stretch, timedelta, bool]] = []
    for start, end in busy:
        if legs and (pause := start - legs[-1][0][1]) > timedelta():
            is_cut = pause > max(SHORTEST_CUT, worked * LONG)
            shown = worked * SHORT if is_cut else pause
            legs.append(((legs[-1][0][1], start), shown, is_cut))
        legs.append(((start, end), max(end - start, timedelta(microseconds=1)), False))
    whole = sum((shown for _, shown, _ in legs), timedelta())
    placed, x = [], 0.0
    for (start, end), shown, is_cut in legs:
        width = WIDTH * (shown / whole)
        placed.append(Leg(start=start, end=end, x=x, width=width, is_cut=is_cut))
        x += width
    return Axis(legs=placed)


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """In order, those that touch made one."""
    joined: list[Stretch] = []
    for start, end in sorted(stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
