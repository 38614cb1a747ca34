"""What the harness knows of a model provider: one request shape, one stream of deltas, one Protocol.

Everything that is true of one vendor only stays in its adapter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

JSON: TypeAlias = dict[str, Any]
#: Arguments that are no JSON object are kept as text under this name. No tool has such an argument,
#: so the check of arguments tells the model what was wrong.
RAW = "_raw"


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as the model is told of it."""

    name: str
    description: str
    json_schema: JSON


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """The model asks for one call of a tool."""

    call_id: str
    name: str
    arguments: JSON = field(default_factory=dict)
    #: Opaque text of the provider (a thought signature, say), stored and sent back unchanged.
    provider_state: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """The one answer to one call."""

    call_id: str
    name: str
    output: str
    is_error: bool = False


@dataclass(frozen=True, kw_only=True)
class Message:
    """One turn of the conversation: `user` text, `assistant` text with calls, or `tool` results."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    #: Opaque text of the provider that belongs to the assistant's text, sent back unchanged.
    provider_state: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """Everything a model needs for one answer."""

    model: str
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class TextDelta:
    """More text of the answer."""

    text: str


@dataclass(frozen=True, kw_only=True)
class TextState:
    """The provider's opaque text that belongs to the answer's text; the last one counts."""

    provider_state: str


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens so far. Providers may send it more than once; the last one counts."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Nothing came for a moment: a chance to stop waiting."""


Delta: TypeAlias = TextDelta | TextState | ToolCall | Usage | Tick


class Provider(Protocol):
    """A source of answers. Closing the iterator ends the request at the provider."""

    def stream(self, request: ModelRequest) -> Iterator[Delta]: ...
