"""Whether what a tool stores can be trusted.

Memory cannot know what a run has read before. Whoever does, sets the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from memory.models import MemoryEntry
from tools_app.context import ToolContext

Rule: TypeAlias = Callable[[ToolContext], MemoryEntry.Trust]


def _trusted(context: ToolContext) -> MemoryEntry.Trust:
    return MemoryEntry.Trust.TRUSTED


_rule: Rule = _trusted


def use_rule(rule: Rule | None) -> None:
    """From now on, this says what a call's words are worth; None trusts every call."""
    global _rule
    _rule = rule or _trusted


def trust_of(context: ToolContext) -> MemoryEntry.Trust:
    return _rule(context)
