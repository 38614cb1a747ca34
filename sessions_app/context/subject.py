"""For whom a context is built: one session of one version of an agent, with its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from agents.limits import limits_of
from agents.models import AgentVersion
from agents.models_catalog import find_model
from sessions_app.context.ground import Ground
from tools_app.effective import EffectivePolicy
from tools_app.registry import Category, Tool

#: The most of a window that is kept free for the answer, and for what an estimate may miss.
ANSWER_SHARE, MARGIN_SHARE = 4, 20
#: Of what can be used at all: compaction begins before anything would have to be left out.
NEARLY_FULL = 0.9


@dataclass(frozen=True, kw_only=True)
class Subject:
    workspace_id: UUID
    agent_id: UUID
    session_id: UUID
    version: AgentVersion
    tools: Mapping[str, Tool]
    ground: Ground

    @property
    def may_recall(self) -> bool:
        """Not when the agent's policy denies it, nor when the agent switched it off."""
        return "memory_search" in self.tools and limits_of(self.version).recall_memory

    @property
    def may_store(self) -> bool:
        return "memory_store" in self.tools and limits_of(self.version).save_before_compacting


def offered_tools(policy: EffectivePolicy, *, builds: bool) -> dict[str, Tool]:
    """What the model is offered: everything that is not denied, and of use in this session."""
    return {
        name: tool
        for name, tool in policy.offered().items()
        if builds or tool.category != Category.BUILDER
    }


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much of a model's window may be used, and from where on it is compacted."""

    window: int
    usable: int
    threshold: int

    @property
    def pinned(self) -> int:
        return self.window // 10

    @property
    def recalled(self) -> int:
        return min(1_500, self.window // 10)

    @property
    def summary(self) -> int:
        return max(300, min(2_000, self.window // 10))


def room_of(version: AgentVersion, provider: str, model: str, ceiling: int | None = None) -> Room:
    """A ceiling is what a provider was found to take when its window is smaller than thought."""
    info = find_model(provider, model)
    answer = min(version.max_tokens or info.max_output, info.window // ANSWER_SHARE)
    usable = info.window - answer - info.window // MARGIN_SHARE
    usable = min(usable, ceiling) if ceiling else usable
    share = limits_of(version).compact_at_percent
    threshold = min(info.window * share // 100, int(usable * NEARLY_FULL))
    return Room(window=info.window, usable=usable, threshold=threshold)
