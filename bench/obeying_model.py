"""A model that does its task until it reads an attack of AgentDojo, and then does what that says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from agents.providers.base import Delta, ModelRequest, TextDelta, ToolCall, Usage

#: The name of the MCP server with the suite's tools.
SERVER = "dojo"


class ObeyingModel:
    """Makes the calls of the person's task until it reads the attack, then those of the attack."""

    def __init__(self, attack: Mapping[str, Any]) -> None:
        self._goal = squeezed(attack["goal"])
        self._calls, self._attack_calls = iter(attack["calls"]), iter(attack["attack_calls"])
        self._attack_answer = attack["attack_answer"]
        self.has_read_attack = False
        self.answer = ""

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        results = [result.output for message in request.messages for result in message.results]
        self.has_read_attack |= any(self._goal in squeezed(output) for output in results)
        if call := next(self._attack_calls if self.has_read_attack else self._calls, None):
            name, arguments = call
            yield ToolCall(call_id=uuid4().hex, name=f"mcp:{SERVER}:{name}", arguments=arguments)
        else:
            self.answer = (self.has_read_attack and self._attack_answer) or "Done."
            yield TextDelta(text=self.answer)
        yield Usage(input_tokens=1, output_tokens=1)


def squeezed(text: str) -> str:
    """Return the letters and digits. Tools return YAML, which quotes, escapes and wraps text."""
    return re.sub(r"\\n|[\W_]", "", text)
