"""Keeps text within bounds and free of what the database cannot hold."""

from __future__ import annotations

import re
from typing import Any

#: Characters of one tool result that a model is shown; the ledger keeps the whole.
MODEL_LIMIT = 24_000
#: The end of an output mostly says how it went, so it gets a third.
TAIL_SHARE = 3
_UNFIT = re.compile("[\x00\ud800-\udfff]")


def clip_for_model(text: str, limit: int = MODEL_LIMIT) -> str:
    """The head and the tail of a long text, with a note of how much was cut between them."""
    if len(text) <= limit:
        return text
    tail = limit // TAIL_SHARE
    head = limit - tail
    cut = len(text) - limit
    note = f"\n\n[… {cut:,} of {len(text):,} characters were cut here …]\n\n"
    return text[:head] + note + (text[-tail:] if tail else "")


def storable(text: str) -> str:
    """The text with NUL and lone surrogates, which PostgreSQL refuses, shown as U+FFFD."""
    return _UNFIT.sub("\ufffd", text)


def storable_json(value: Any) -> Any:
    """The same for every text in a JSON value, its keys included."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(item) for item in value]
    return value
