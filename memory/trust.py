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


def use_rule(rule: Rule | None) -> Rule:
    """From now on, this says what a call's words are worth; None trusts every call.

    Answers with the rule that was used before.
    """
    global _rule
    before, _rule = _rule, rule or _trusted
    return before


def trust_of(context: ToolContext) -> MemoryEntry.Trust:
    return _rule(context)
