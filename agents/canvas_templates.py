"""Fills `{{input.city}}` and `{{nodes.fetch.output}}` into texts. It looks up and nothing else.

What is filled in is never read as a template again, and all of it together has a bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from agents.canvas_paths import Facts, look_up
from config.faults import Invalid

PLACE = re.compile(r"\{\{([^{}]*)\}\}")
MOST_FILLED = 1024 * 1024


def paths_in(value: Any) -> Iterator[str]:
    """Every path that a text names, or the texts inside a list or an object."""
    if isinstance(value, str):
        for found in PLACE.finditer(value):
            yield found[1].strip()
    elif isinstance(value, list):
        for one in value:
            yield from paths_in(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from paths_in(one)


def fill(value: Any, facts: Facts) -> Any:
    """The value with every place filled. A text that is one place alone becomes what stands there."""
    return _Filling(facts).fill(value)


def as_text(value: Any) -> str:
    """Text as it is, nothing as nothing, the rest as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class _Filling:
    """One filling, which counts what it has put in."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._left = MOST_FILLED

    def fill(self, value: Any) -> Any:
        if isinstance(value, str):
            alone = PLACE.fullmatch(value.strip())
            if alone:
                found = look_up(alone[1].strip(), self._facts)
                self._spend(as_text(found))
                return found
            return PLACE.sub(lambda match: self._text(match[1]), value)
        if isinstance(value, list):
            return [self.fill(one) for one in value]
        if isinstance(value, dict):
            return {name: self.fill(one) for name, one in value.items()}
        return value

    def _text(self, path: str) -> str:
        return self._spend(as_text(look_up(path.strip(), self._facts)))

    def _spend(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise Invalid(f"More than {MOST_FILLED:,} characters would be filled in.")
        return text
