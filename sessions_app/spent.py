"""What a run has used so far, to be held against its limits and kept with it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from agents.providers.base import Usage


@dataclass(kw_only=True)
class Spent:
    model_calls: int = 0
    #: The calls of tools: one that is tried anew, or waits before it runs, counts once.
    calls: set[UUID] = field(default_factory=set)
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)
    started: float = field(default_factory=time.monotonic)

    @property
    def tool_calls(self) -> int:
        return len(self.calls)

    def add(self, usage: Usage, cost: Decimal) -> None:
        self.model_calls += 1
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cost += cost

    def add_beside(self, usage: Usage, cost: Decimal) -> None:
        """A call that is no step of the answer: it costs, and uses up no step."""
        self.add(usage, cost)
        self.model_calls -= 1

    def as_json(self) -> dict[str, Any]:
        return {
            "model_calls": self.model_calls,
            "tool_calls": self.tool_calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": str(self.cost),
        }
