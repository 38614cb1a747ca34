"""The scripted answers of a wire server, for every vendor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeAlias

JSON: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One tool call of the model."""

    name: str
    arguments: JSON = field(default_factory=dict)
    id: str = ""
    #: Gemini only: must be sent back with the call.
    signature: bytes | None = None
    #: OpenAI only: sent in place of the arguments, valid or not.
    raw_arguments: str | None = None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The token counts that the vendor reports."""

    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 0
    #: Anthropic only: written to its cache.
    written_tokens: int = 0
    thought_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A streamed answer: chunks of text, then calls, then an end."""

    text: Iterable[str] = ()
    calls: Iterable[Call] = ()
    #: Thoughts, which are no part of the text.
    thoughts: str = ""
    #: Anthropic only: thoughts that only the vendor can read.
    redacted: str = ""
    #: Gemini only: belongs to the text and should be sent back with it.
    text_signature: bytes | None = None
    #: The vendor's finish reason; empty means its regular one.
    finish: str = ""
    counts: Counts | None = field(default_factory=Counts)
    #: Not for OpenAI: the prompt was refused for this reason.
    blocked: str = ""
    #: Seconds before every chunk.
    delay: float = 0.0
    #: Drop the connection after this many chunks.
    cut_after: int | None = None
    #: Send everything, including the finish reason, and then drop the connection.
    cut_at_end: bool = False
    #: Send this many chunks and end the body properly, but without a finish reason.
    end_after: int | None = None
    #: After the first chunk, wait for this event.
    hold: Event | None = None
    #: Send this error object inside the stream after the chunks.
    error: JSON | None = None
    #: Sent as they are, in place of everything above, with this status and these headers.
    raw: Iterable[str] | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """An HTTP error."""

    status: int
    message: str = "refused"
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    details: tuple[JSON, ...] = ()
    #: Sent as it is, in place of the vendor's form.
    body: str | None = None


Reply: TypeAlias = Answer | Refuse
#: A reply for each request in turn, or a function of the request's body.
Script: TypeAlias = Callable[[JSON], Reply]


class BadRequest(Exception):
    """The request breaks a rule of the vendor."""

    def __init__(self, message: str, *, status: int = 400, code: str = "", param: str = "") -> None:
        super().__init__(message)
        self.refusal = Refuse(status=status, message=message, code=code)
        self.param = param
