"""Measures how much of each request to a model begins like the request before, token by token.

That part is what a provider's cache can serve. `naive_order` rebuilds a request as many programs order
it, with what was recalled for the newest message in front of the history.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace

from agents.providers.base import ASIDE, ASIDE_END, Message, ModelRequest, estimate_tokens

_ASIDE = re.compile(rf"\s*{re.escape(ASIDE)}(.*?){re.escape(ASIDE_END)}", re.DOTALL)


def text_of(request: ModelRequest) -> str:
    """Return a request as one text, in the order in which vendors read it."""
    tools = [[tool.name, tool.description, tool.json_schema] for tool in request.tools]
    head = [json.dumps(tools), request.instructions]
    return "\n".join([*head, *(_message_text(message) for message in request.messages)])


def _message_text(message: Message) -> str:
    calls = [[call.call_id, call.name, call.arguments] for call in message.calls]
    results = [[result.call_id, result.output, result.is_error] for result in message.results]
    body = [message.text, *(json.dumps(one) for one in (*calls, *results))]
    return f"{message.role}: " + "\n".join(body)


def cacheable_share(texts: Sequence[str]) -> float:
    """Return the share of all tokens that stand in a beginning shared with the request before."""
    shared = sum(
        estimate_tokens(text[: _shared_length(before, text)])
        for before, text in itertools.pairwise(texts)
    )
    return shared / sum(map(estimate_tokens, texts))


def _shared_length(before: str, text: str) -> int:
    same, different = 0, min(len(before), len(text))
    while same < different:
        middle = (same + different + 1) // 2
        if before[:middle] == text[:middle]:
            same = middle
        else:
            different = middle - 1
    return same


def naive_order(request: ModelRequest) -> ModelRequest:
    """Return the request with the newest note in front of the conversation and without the others."""
    notes = [note for message in request.messages for note in _ASIDE.findall(message.text)]
    messages = [
        replace(message, text=_ASIDE.sub("", message.text)) if message.role == "user" else message
        for message in request.messages
    ]
    if notes:
        messages.insert(0, Message(role="user", text=notes[-1]))
    return replace(request, messages=tuple(messages))
