"""The interface of a model provider: one request, one stream of deltas, one Protocol.

What is specific to one vendor stays in its adapter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, Protocol, TypeAlias

JSON: TypeAlias = dict[str, Any]
#: Arguments that are not a JSON object are kept as text under this name. No tool has such an
#: argument, so validation tells the model what is wrong.
RAW = "_raw"


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as it is described to the model."""

    name: str
    description: str
    json_schema: JSON


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One tool call that the model requests."""

    call_id: str
    name: str
    arguments: JSON = field(default_factory=dict)
    #: Opaque state of the provider, such as a thought signature, sent back unchanged.
    provider_state: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """The result of one tool call."""

    call_id: str
    name: str
    output: str
    is_error: bool = False


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message: `user` text, `assistant` text with calls, or `tool` results."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    #: Opaque state of the provider that belongs to the assistant's text, sent back unchanged.
    provider_state: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One request to a model."""

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
    """Opaque state of the provider for the answer's text; the last one counts."""

    provider_state: str


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens used so far. Providers may send it more than once; the last one counts."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Nothing has arrived for a moment. It gives the reader a chance to stop waiting."""


Delta: TypeAlias = TextDelta | TextState | ToolCall | Usage | Tick


class Provider(Protocol):
    """A model provider. Closing the iterator ends the request."""

    def stream(self, request: ModelRequest) -> Iterator[Delta]: ...


ASCII_CHARACTERS_PER_TOKEN = 4
OTHER_CHARACTERS_PER_TOKEN = 2
#: Role and separators of each message, as the vendors' tokenizers count them.
TOKENS_PER_MESSAGE = 4

# Chinese, Japanese and Korean characters cost about one token each.
_CJK = re.compile(
    r"[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_OTHER = re.compile(r"[^\x00-\x7f]")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text. Zero only for an empty text."""
    if text.isascii():
        return -(-len(text) // ASCII_CHARACTERS_PER_TOKEN)
    cjk = len(_CJK.findall(text))
    other = len(_OTHER.findall(text)) - cjk
    plain = len(text) - cjk - other
    return cjk - (-other // OTHER_CHARACTERS_PER_TOKEN) - (-plain // ASCII_CHARACTERS_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """Estimate the tokens of one message with its calls and results."""
    return (
        TOKENS_PER_MESSAGE
        + estimate_tokens(message.text)
        + sum(
            estimate_tokens(call.name) + estimate_tokens(json.dumps(call.arguments, default=str))
            for call in message.calls
        )
        + sum(
            estimate_tokens(result.name) + estimate_tokens(result.output)
            for result in message.results
        )
    )


def estimate_request(request: ModelRequest) -> int:
    """Estimate the tokens of a request: instructions, tools and messages."""
    return (
        estimate_tokens(request.instructions)
        + sum(
            estimate_tokens(tool.name)
            + estimate_tokens(tool.description)
            + estimate_tokens(json.dumps(tool.json_schema, default=str))
            for tool in request.tools
        )
        + sum(estimate_message(message) for message in request.messages)
    )


NAME_LENGTH = 64
ID_LENGTH = 40
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{NAME_LENGTH - 1}}}")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(name: str) -> str:
    """Return a tool's name as vendors accept it: they refuse the colons of `mcp:github:search`."""
    if _NAME.fullmatch(name):
        return name
    # The digest keeps `a:b` and `a.b` apart.
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"t_{_FOREIGN.sub('_', name)}"[: NAME_LENGTH - 9] + f"_{digest}"


def wire_id(call_id: str) -> str:
    """Return a call's id, shortened if a vendor would refuse it as too long."""
    if len(call_id) <= ID_LENGTH:
        return call_id
    return f"call_{sha256(call_id.encode()).hexdigest()[: ID_LENGTH - 5]}"


def names_by_wire_name(tools: Iterable[ToolSpec]) -> dict[str, str]:
    """Map the names that the model sees to the names of the tools."""
    return {wire_name(tool.name): tool.name for tool in tools}
