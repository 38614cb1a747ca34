"""Reads server-sent events to their very end, so that the connection can serve the next request.

The SDK's own stream hangs up at `[DONE]`, before the body's end, and every request of an agent
would pay for a new connection.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress

import httpx2
import openai
from openai.types.chat import ChatCompletionChunk

DONE = b"[DONE]"


def chunks_of(pieces: Iterable[bytes], request: httpx2.Request) -> Iterator[ChatCompletionChunk]:
    """The chunks of one answer. An error inside the stream is raised as the SDK would."""
    lines = _lines(pieces)
    for line in lines:
        name, _, data = line.partition(b":")
        if name != b"data":
            continue
        if (data := data.strip()) == DONE:
            # The answer is whole; a connection that breaks now only cannot be used again.
            with suppress(httpx2.HTTPError):
                deque(lines, maxlen=0)
            return
        body = json.loads(data or b"null")
        if not isinstance(body, dict):
            continue  # A sign of life.
        if error := body.get("error"):
            told = error.get("message") if isinstance(error, dict) else error
            raise openai.APIError(str(told or "no reason given"), request, body=error)
        yield ChatCompletionChunk.construct(**body)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split at line feeds only: an answer may hold other characters that Python takes for ends."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    yield rest
