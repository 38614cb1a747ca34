"""Bars for every day of a span, as numbers that a drawing can use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from tenants.daily import Day
from tenants.spending import dollars
from tenants.templatetags.money import compact

#: The drawing's own units; it is stretched to the room it gets.
HEIGHT = 100.0
STEP = 10.0
GAP = 2.0
MEASURES = {"spend": "Spend", "tokens": "Tokens", "calls": "Calls"}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One day. `top` is what sandboxes add on top of models."""

    day: date
    x: float
    y: float
    height: float
    top_y: float
    top: float
    words: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    measure: str
    bars: list[Bar]
    width: float
    #: What the highest bar stands for, in words.
    most: str
    words: str

    @property
    def bar_width(self) -> float:
        return STEP - GAP


def measure_for(days: Sequence[Day], wanted: str) -> str:
    """What was asked for; else money, unless none was spent."""
    if wanted in MEASURES:
        return wanted
    return "spend" if any(day.spent for day in days) or not any(d.calls for d in days) else "tokens"


def chart_of(days: Sequence[Day], measure: str) -> Chart:
    highest = max((_value(day, measure) for day in days), default=Decimal(0))
    scale = HEIGHT / float(highest) if highest else 0.0
    total = sum((_value(day, measure) for day in days), Decimal(0))
    first, last = days[0].date, days[-1].date
    return Chart(
        measure=measure,
        bars=[_bar(day, number, measure, scale) for number, day in enumerate(days)],
        width=len(days) * STEP,
        most=_said(highest, measure),
        words=f"{MEASURES[measure]} per day from {_day(first)} to {_day(last)}: "
        f"{_said(total, measure)} in all, {_said(highest, measure)} on the busiest day.",
    )


def _bar(day: Day, number: int, measure: str, scale: float) -> Bar:
    top = float(day.sandbox) * scale if measure == "spend" else 0.0
    height = float(_value(day, measure)) * scale - top
    words = f"{_day(day.date)}: {_said(_value(day, measure), measure)}"
    if measure == "spend" and day.sandbox:
        words += f", {dollars(day.sandbox)} of it for sandboxes"
    return Bar(
        day=day.date,
        x=round(number * STEP + GAP / 2, 2),
        y=round(HEIGHT - height, 2),
        height=round(height, 2),
        top_y=round(HEIGHT - height - top, 2),
        top=round(top, 2),
        words=words,
    )


def _value(day: Day, measure: str) -> Decimal:
    match measure:
        case "tokens":
            return Decimal(day.tokens)
        case "calls":
            return Decimal(day.calls)
        case _:
            return day.spent


def _said(value: Decimal, measure: str) -> str:
    return dollars(value) if measure == "spend" else f"{compact(int(value))} {measure}"


def _day(day: date) -> str:
    return f"{day:%-d %b}"
