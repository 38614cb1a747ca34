"""Finds the time that a query names, such as "yesterday", "last week" or "in May", as days in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}


@dataclass(frozen=True, kw_only=True)
class Period:
    """The days from the first to the last, in ISO form, so that a database can compare them as text."""

    first: str
    last: str


def period_in(query: str, today: date) -> Period | None:
    """Return the time that a query names, or None."""
    low = query.lower()
    for pattern, days in RULES:
        if found := re.search(pattern, low):
            try:
                first, last = days(found, today)
            except (ValueError, OverflowError):
                continue
            return Period(first=first.isoformat(), last=last.isoformat())
    return None


Days = tuple[date, date]
Rule = Callable[[re.Match[str], date], Days]


def _named_day(found: re.Match[str], today: date) -> Days:
    day = date.fromisoformat(found[0])
    return day, day


def _ago(found: re.Match[str], today: date) -> Days:
    count = int(found[1]) if found[1].isdigit() else NUMBERS[found[1]]
    match found[2]:
        case "day":
            day = today - timedelta(days=count)
            return day, day
        case "week":
            return _week(today - timedelta(weeks=count))
        case _:
            return _month(today.year * 12 + today.month - 1 - count)


def _past(found: re.Match[str], today: date) -> Days:
    count = int(found[1]) if found[1].isdigit() else NUMBERS[found[1]]
    length = {"day": 1, "week": 7, "month": 31}[found[2]]
    return today - timedelta(days=count * length), today


def _named_month(found: re.Match[str], today: date) -> Days:
    """Return the month of the year given, or else the latest one that has begun."""
    month = MONTHS.index(found[1])
    year = int(found[2]) if found[2] else today.year - (month + 1 > today.month)
    return _month(year * 12 + month)


def _weekday(found: re.Match[str], today: date) -> Days:
    back = (today.weekday() - WEEKDAYS.index(found[1])) % 7 or 7
    return today - timedelta(days=back), today - timedelta(days=back)


def _week(day: date) -> Days:
    monday = day - timedelta(days=day.weekday())
    return monday, monday + timedelta(days=6)


def _month(number: int) -> Days:
    """Return the days of a month, counted from the year 0."""
    first = date(number // 12, number % 12 + 1, 1)
    after = date((number + 1) // 12, (number + 1) % 12 + 1, 1)
    return first, after - timedelta(days=1)


def _year(year: int) -> Days:
    return date(year, 1, 1), date(year, 12, 31)


COUNT = rf"(\d{{1,3}}|{'|'.join(NUMBERS)})"
#: The first rule that fits decides. "May" and "march" are months only after a word such as "in".
RULES: tuple[tuple[str, Rule], ...] = (
    (r"\b\d{4}-\d{2}-\d{2}\b", _named_day),
    (rf"\b{COUNT} (day|week|month)s? ago\b", _ago),
    (rf"\b(?:last|past) {COUNT} (day|week|month)s?\b", _past),
    (r"\byesterday\b", lambda _, today: (today - timedelta(days=1),) * 2),
    (r"\b(?:today|this morning|this afternoon)\b", lambda _, today: (today, today)),
    (r"\blast week\b", lambda _, today: _week(today - timedelta(weeks=1))),
    (r"\bthis week\b", lambda _, today: _week(today)),
    (r"\blast month\b", lambda _, today: _month(today.year * 12 + today.month - 2)),
    (r"\bthis month\b", lambda _, today: _month(today.year * 12 + today.month - 1)),
    (r"\blast year\b", lambda _, today: _year(today.year - 1)),
    (r"\bthis year\b", lambda _, today: _year(today.year)),
    (rf"\b(?:in|since|during|of|last) ({'|'.join(MONTHS)})(?: (\d{{4}}))?\b", _named_month),
    (rf"\b(?:on|last) ({'|'.join(WEEKDAYS)})\b", _weekday),
    (r"\b(?:in|during) (20\d\d)\b", lambda found, _: _year(int(found[1]))),
)
