"""The interface of a model provider: one request, one stream of deltas, one Protocol.

What is specific to one vendor stays in its adapter.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias

from pydantic import Field

from core.validation import Input

JSON: TypeAlias = dict[str, Any]
#: Arguments that are not a JSON object are kept as text under this name. No tool has such an
#: argument, so validation tells the model what is wrong.
RAW = "_raw"


#: How much a model thinks before it answers. None leaves it to the model.
Effort: TypeAlias = Literal["off", "low", "medium", "high"]
#: Most vendors require a person's message first; a shortened history may begin with the model's.
HISTORY_IS_CUT = "[Earlier messages are not shown.]"

#: Larger numbers are mistakes of a server or a person.
MOST_TOKENS = 100_000_000
TokenCount: TypeAlias = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
PricePerMillion: TypeAlias = Annotated[Decimal, Field(ge=0, max_digits=12, decimal_places=6)]


class ModelFacts(Input):
    """What is known of a model. None means unknown. Prices are US dollars per million tokens."""

    window: TokenCount | None = None
    max_output: TokenCount | None = None
    input_price: PricePerMillion | None = None
    output_price: PricePerMillion | None = None
    #: Whether it can call tools, and read images, PDFs and sound.
    tools: bool | None = None
    images: bool | None = None
    files: bool | None = None
    audio: bool | None = None

    def or_else(self, other: ModelFacts) -> ModelFacts:
        """Return these facts, completed by those of another source."""
        known = self.model_dump(exclude_none=True)
        return other.model_copy(update=known)


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as it is described to the model."""

    name: str
    description: str
    json_schema: JSON

    @cached_property
    def tokens(self) -> int:
        """Return the estimated tokens of the description, counted once."""
        schema = json.dumps(self.json_schema, default=str)
        return sum(map(estimate_tokens, (self.name, self.description, schema)))


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One tool call that the model requests."""

    call_id: str
    name: str
    arguments: JSON = field(default_factory=dict)
    #: Opaque state of the provider, such as a thought signature, sent back unchanged.
    provider_state: str | None = None


@dataclass(frozen=True, kw_only=True)
class Part:
    """An image or a file beside the text of a message or of a result, known by its hash."""

    FACTS: ClassVar = ("type", "media_type", "sha256", "name", "size", "width", "height", "pages")

    type: Literal["image", "file"]
    media_type: str
    sha256: str
    name: str = "file"
    size: int = 0
    width: int = 0
    height: int = 0
    #: Pages of a PDF, if they could be counted.
    pages: int | None = None
    #: Filled in for the request in which it is sent.
    content: bytes = field(default=b"", repr=False, compare=False)

    @property
    def base64(self) -> str:
        return b64encode(self.content).decode()

    @property
    def tokens(self) -> int:
        """Return the estimated tokens, by the vendors' rules of thumb."""
        if self.type == "image":
            return max(258, min(1_600, self.width * self.height // 750))
        if self.pages or self.media_type == "application/pdf":
            return TOKENS_PER_PAGE * (self.pages or 1)
        return self.size // AUDIO_BYTES_PER_TOKEN

    @property
    def description(self) -> str:
        """Return what stands for the part where a model cannot take it."""
        facts = [self.media_type, f"{self.size:,} bytes"]
        if self.width:
            facts.append(f"{self.width} by {self.height} pixels")
        if self.pages:
            facts.append(f"{self.pages} page{'s' if self.pages > 1 else ''}")
        return f"[{self.type} {self.name}: {', '.join(facts)}; not shown to this model]"

    def as_json(self) -> JSON:
        """Return the facts as they are stored in the log."""
        return {name: getattr(self, name) for name in self.FACTS if getattr(self, name)}


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """The result of one tool call."""

    call_id: str
    name: str
    output: str
    is_error: bool = False
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Thinking:
    """What a model thought before an answer, with the state that its vendor wants back."""

    text: str
    #: Opaque state of the provider, such as signatures, sent back unchanged with the text.
    provider_state: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message: `user` text, `assistant` text with calls, or `tool` results."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    #: The images and files of a person's message.
    parts: tuple[Part, ...] = ()
    #: Opaque state of the provider that belongs to the assistant's text, sent back unchanged.
    provider_state: str | None = None
    #: The thinking that came before the text and the calls, if its vendor wants it back.
    thinking: Thinking | None = None

    @cached_property
    def tokens(self) -> int:
        """Return the estimated tokens of the message with its calls and results, counted once."""
        return (
            TOKENS_PER_MESSAGE
            + estimate_tokens(self.text)
            + (estimate_tokens(self.thinking.text) if self.thinking else 0)
            + sum(
                estimate_tokens(call.name)
                + estimate_tokens(json.dumps(call.arguments, default=str))
                for call in self.calls
            )
            + sum(
                estimate_tokens(result.name)
                + estimate_tokens(result.output)
                + sum(part.tokens for part in result.parts)
                for result in self.results
            )
            + sum(part.tokens for part in self.parts)
        )


#: Begin and end what the system adds to a person's message, after the text of the person.
ASIDE = "[Background from the system, not written by the person:]"
ASIDE_END = "[End of the background.]"


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One request to a model."""

    model: str
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    #: Later requests of the session repeat the instructions, the tools and so many of the first
    #: messages unchanged: a mark for a provider's cache belongs after the last of them. Zero if no
    #: later request is expected to begin like this one.
    stable_messages: int = 0
    #: The longest answer of the model, for vendors that require a limit.
    longest_answer: int | None = None
    effort: Effort | None = None
    #: The JSON Schema that the answer must fit. The instructions ask for it too.
    response_schema: JSON | None = None


@dataclass(frozen=True, kw_only=True)
class TextDelta:
    """More text of the answer."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ThinkingDelta:
    """More of what the model thinks before or while it answers."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ThinkingState:
    """Opaque state of the provider for the answer's thinking; the last one counts."""

    provider_state: str


@dataclass(frozen=True, kw_only=True)
class TextState:
    """Opaque state of the provider for the answer's text; the last one counts."""

    provider_state: str


#: More tokens than any model reads or writes in one call.
MOST_TOKENS = 1_000_000_000
TOKEN_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens used so far. Providers may send it more than once; the last one counts.

    The counts come from a server that may belong to the workspace that pays. A negative, absurd or
    meaningless one must not lower a cost or fail the run.
    """

    #: All of the input, also what was read from the provider's cache or written to it.
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __post_init__(self) -> None:
        for name in TOKEN_COUNTS:
            count = getattr(self, name)
            if type(count) is not int or not 0 <= count <= MOST_TOKENS:
                object.__setattr__(self, name, _token_count(count))
        left = self.input_tokens
        for name in ("cache_read_tokens", "cache_write_tokens"):
            count = min(getattr(self, name), left)
            object.__setattr__(self, name, count)
            left -= count


def _token_count(reported: object) -> int:
    """Return the nearest number of tokens that is possible."""
    if not isinstance(reported, int | float) or math.isnan(reported):
        return 0
    return int(min(max(reported, 0), MOST_TOKENS))


@dataclass(frozen=True, kw_only=True)
class Truncated:
    """The answer ended at its token limit, not where the model would have ended it."""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Nothing has arrived for a moment. It gives the reader a chance to stop waiting."""


Delta: TypeAlias = (
    TextDelta | TextState | ThinkingDelta | ThinkingState | ToolCall | Usage | Truncated | Tick
)


class Provider(Protocol):
    """A model provider. Closing the iterator ends the request."""

    def stream(self, request: ModelRequest) -> Iterator[Delta]: ...


#: Of a PDF, which vendors read as text and as an image, and of a sound file.
TOKENS_PER_PAGE = 2_000
AUDIO_BYTES_PER_TOKEN = 500
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


def estimate_request(request: ModelRequest) -> int:
    """Estimate the tokens of a request: instructions, tools and messages."""
    return (
        estimate_tokens(request.instructions)
        + sum(tool.tokens for tool in request.tools)
        + sum(message.tokens for message in request.messages)
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
