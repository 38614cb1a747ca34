"""Makes a conversation fit: the oldest turns go first, then long texts and results are clipped.

A call and its result stay together, and the newest message of a person is always there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.providers.base import Message, ToolCall
from agents.providers.estimate import estimate_message
from sessions_app.view import trim
from tools_app.clip import clip_for_model

LEFT_OUT = "(Earlier messages are left out.)"
#: Fewer characters than an estimated token has, so that clipping is sure to be enough.
CHARACTERS_PER_TOKEN = 3
#: A note of what was cut, and the frame around a message.
OVERHEAD = 40


def count(messages: list[Message] | tuple[Message, ...]) -> int:
    return sum(estimate_message(message) for message in messages)


def fit(messages: list[Message], budget: int) -> list[Message]:
    """The newest messages, within this many tokens, from a person's message on."""
    if not messages:
        return []
    kept = trim(messages, budget)
    return kept if count(kept) <= budget else _squeeze(kept, budget)


def _squeeze(messages: list[Message], budget: int) -> list[Message]:
    """One turn that is too long: its task, and its newest steps as far as they fit."""
    steps = _steps(messages)
    task = (
        [_clipped(one, budget // 4) for one in steps.pop(0)] if messages[0].role == "user" else []
    )
    left = budget - count(task)
    kept: list[Message] = []
    for step in reversed(steps):
        cost = count(step)
        if cost > left and kept:
            break
        if cost > left:
            step = [_clipped(one, left // len(step)) for one in step]
            if count(step) > left:
                break
        kept = [*step, *kept]
        left -= count(step)
    return [*task, *kept] if task else [Message(role="user", text=LEFT_OUT), *kept]


def _steps(messages: list[Message]) -> list[list[Message]]:
    """Messages with the results that belong to them."""
    steps: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and steps:
            steps[-1].append(message)
        else:
            steps.append([message])
    return steps


def _clipped(message: Message, tokens: int) -> Message:
    """The message with each of its texts cut to its share."""
    if estimate_message(message) <= tokens:
        return message
    pieces = len(message.calls) + len(message.results) + bool(message.text)
    share = max(8, (tokens // max(1, pieces)) - OVERHEAD) * CHARACTERS_PER_TOKEN
    return replace(
        message,
        text=clip_for_model(message.text, share),
        calls=tuple(_short_call(call, share) for call in message.calls),
        results=tuple(
            replace(result, output=clip_for_model(result.output, share))
            for result in message.results
        ),
    )


def _short_call(call: ToolCall, characters: int) -> ToolCall:
    share = characters // max(1, len(call.arguments))
    return replace(
        call, arguments={name: _short(value, share) for name, value in call.arguments.items()}
    )


def _short(value: Any, characters: int) -> Any:
    if isinstance(value, str):
        return clip_for_model(value, characters)
    if isinstance(value, dict | list) and len(str(value)) > characters:
        return clip_for_model(str(value), characters)
    return value
