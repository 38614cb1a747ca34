"""What the model would see if a run began now, by part, with what each part costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from agents.definitions import version_by_id
from agents.models_catalog import find_model
from agents.providers.base import Message, ToolSpec
from agents.providers.estimate import estimate_tokens
from sessions_app.context import WINDOW_SHARE, read_lines
from sessions_app.models import Session
from sessions_app.view import build_messages, tokens_of, trim
from tools_app.selection import effective_policy


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the request. Tokens are an estimate; the provider's count comes with its answer."""

    name: str
    tokens: int
    content: Any


@dataclass(frozen=True, kw_only=True)
class Preview:
    provider: str
    model: str
    #: What the model can take in all, and how much of it the conversation may use.
    window: int
    budget: int
    parts: list[Part]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


def preview(session: Session) -> Preview:
    version = version_by_id(session.agent_version_id)
    window = find_model(version.provider, version.model).window
    budget = int(window * WINDOW_SHARE)
    messages = build_messages(read_lines(session.pk, session.snapshot_seq))
    policy = effective_policy(version, session.pk)
    offered = [tool.spec() for tool in policy.offered().values()]
    prompt = version.system_prompt
    return Preview(
        provider=version.provider,
        model=version.model,
        window=window,
        budget=budget,
        parts=[
            Part(name="instructions", tokens=estimate_tokens(prompt), content=prompt),
            _tools(offered),
            _messages(trim(messages, budget) if messages else []),
        ],
    )


def _tools(specs: list[ToolSpec]) -> Part:
    content: list[dict[str, Any]] = [
        {
            "name": spec.name,
            "description": spec.description,
            "tokens": estimate_tokens(
                f"{spec.name}{spec.description}{orjson.dumps(spec.json_schema).decode()}"
            ),
        }
        for spec in specs
    ]
    return Part(name="tools", tokens=sum(one["tokens"] for one in content), content=content)


def _messages(messages: list[Message]) -> Part:
    content: list[dict[str, Any]] = [
        {
            "role": message.role,
            "text": message.text,
            "calls": [{"name": c.name, "input": c.arguments} for c in message.calls],
            "results": [
                {"name": r.name, "output": r.output, "is_error": r.is_error}
                for r in message.results
            ],
            "tokens": tokens_of(message),
        }
        for message in messages
    ]
    return Part(name="messages", tokens=sum(one["tokens"] for one in content), content=content)
