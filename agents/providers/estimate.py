"""A cheap guess at token counts, for wherever no provider has counted."""

from __future__ import annotations

import json
import re

from agents.providers.base import Message, ModelRequest

ASCII_CHARACTERS_PER_TOKEN = 4
OTHER_CHARACTERS_PER_TOKEN = 2
#: Role, separators and the like around each message, as the vendors' own tokenizers count them.
TOKENS_PER_MESSAGE = 4

# Chinese, Japanese and Korean characters cost about one token each.
_CJK = re.compile(
    r"[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_OTHER = re.compile(r"[^\x00-\x7f]")


def estimate_tokens(text: str) -> int:
    """About how many tokens a text costs. Zero only for an empty text."""
    if text.isascii():
        return -(-len(text) // ASCII_CHARACTERS_PER_TOKEN)
    cjk = len(_CJK.findall(text))
    other = len(_OTHER.findall(text)) - cjk
    plain = len(text) - cjk - other
    return cjk - (-other // OTHER_CHARACTERS_PER_TOKEN) - (-plain // ASCII_CHARACTERS_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """About how many tokens one message costs, its calls and results included."""
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
    """About how many tokens a whole request costs: instructions, tools and messages."""
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
