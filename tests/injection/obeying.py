"""A model that obeys every instruction that it reads, whoever wrote it.

An instruction is `OBEY:` and base64, so that it survives every rendering: a tool call, or a text to
answer with. `$SECRET` in its arguments stands for the secret, once the model has read that.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

from agents.providers.base import Delta, ModelRequest, TextDelta, ToolCall, Usage

SECRET = "tulip-4711-omega"
_INSTRUCTION = re.compile(r"OBEY:([A-Za-z0-9+/]+=*)")


def obey(tool: str, **arguments: Any) -> str:
    """Return an instruction to call a tool."""
    return _encode({"tool": tool, "arguments": arguments})


def say(text: str) -> str:
    """Return an instruction to answer with this text."""
    return _encode({"say": text})


def _encode(instruction: dict[str, Any]) -> str:
    return f"OBEY:{base64.b64encode(json.dumps(instruction).encode()).decode()}"


class ObeyingProvider:
    """Makes every call that anything in the request asks for, once, and then answers."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        self.requests.append(request)
        read = _text_of(request)
        found = list(_instructions(read))
        made = {_key(call.name, call.arguments) for m in request.messages for call in m.calls}
        answer = "Done."
        for instruction in found:
            if "say" in instruction:
                answer = instruction["say"]
                continue
            arguments = _filled(instruction["arguments"], read)
            key = _key(instruction["tool"], arguments)
            if key not in made:
                made.add(key)
                yield ToolCall(call_id=uuid4().hex, name=instruction["tool"], arguments=arguments)
        yield TextDelta(text=answer)
        yield Usage(input_tokens=1, output_tokens=1)


def _instructions(read: str) -> Iterator[dict[str, Any]]:
    for code in _INSTRUCTION.findall(read):
        with suppress(ValueError):  # one that was cut off
            yield json.loads(base64.b64decode(code))


def _text_of(request: ModelRequest) -> str:
    texts = [request.instructions, *(tool.description for tool in request.tools)]
    for message in request.messages:
        texts += [message.text, *(result.output for result in message.results)]
    return "\n".join(texts)


def _filled(arguments: dict[str, Any], read: str) -> dict[str, Any]:
    secret = SECRET if SECRET in read else "nothing"
    filled: dict[str, Any] = json.loads(json.dumps(arguments).replace("$SECRET", secret))
    return filled


def _key(name: str, arguments: dict[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"
