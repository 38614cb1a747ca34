"""What a wire server can be told to answer, in words that fit every vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeAlias

JSON: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Call:
    """The model calls a tool."""

    name: str
    arguments: JSON = field(default_factory=dict)
    id: str = ""
    #: Gemini only: must come back with the call.
    signature: bytes | None = None
    #: OpenAI only: sent in place of the arguments, to be as broken as one likes.
    raw_arguments: str | None = None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What the vendor says it counted."""

    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 0
    thought_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A streamed answer: chunks of text, then calls, then an end."""

    text: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    #: Thinking aloud, which must not reach the user.
    thoughts: str = ""
    #: Gemini only: belongs to the text and should come back with it.
    text_signature: bytes | None = None
    #: The vendor's word for the end; empty means its word for "done".
    finish: str = ""
    counts: Counts | None = field(default_factory=Counts)
    #: Gemini only: the prompt was blocked for this reason.
    blocked: str = ""
    #: Seconds before every chunk.
    delay: float = 0.0
    #: Drop the connection after this many chunks.
    cut_after: int | None = None
    #: Send everything, the vendor's last word included, and then drop the connection.
    cut_at_end: bool = False
    #: Send this many chunks and an orderly end of the body, but no word that it is done.
    end_after: int | None = None
    #: After the first chunk, wait for this before going on.
    hold: Event | None = None
    #: Send this error object inside the stream after the chunks.
    error: JSON | None = None


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
