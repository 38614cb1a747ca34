"""What the model would see if a run began now, by part, with what each part costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents.definitions import version_by_id
from agents.providers.base import Message
from agents.providers.estimate import estimate_message, estimate_tokens
from config.faults import ContextOverflow
from sessions_app.context.builder import Context, build_context
from sessions_app.context.fitting import count
from sessions_app.context.ground import load_ground
from sessions_app.context.subject import Subject, offered_tools
from sessions_app.models import Session
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
    #: What the model can take in all, how much of it may be used, and from where it is compacted.
    window: int
    budget: int
    threshold: int
    snapshot_id: UUID | None
    parts: list[Part]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


def preview(session: Session, viewer_id: UUID | None = None) -> Preview:
    """As the viewer's own message would be answered: nobody is shown what another keeps."""
    version = version_by_id(session.agent_version_id)
    subject = Subject(
        workspace_id=session.workspace_id,
        agent_id=session.agent_id,
        session_id=session.pk,
        version=version,
        tools=offered_tools(
            effective_policy(version, session.pk), builds=session.about_id is not None
        ),
        ground=load_ground(session.pk, viewer_id=viewer_id),
    )
    context = build_context(subject, version.provider, version.model)
    return Preview(
        provider=version.provider,
        model=version.model,
        window=context.room.window,
        budget=context.room.usable,
        threshold=context.room.threshold,
        snapshot_id=subject.ground.snapshot_id,
        parts=_parts(context),
    )


def _parts(context: Context) -> list[Part]:
    texts = {
        "instructions": context.subject.version.system_prompt,
        "skills": context.skills,
        **context.background,
    }
    # What frames the background as messages counts with the first part of it.
    framing = count(context.briefing) - sum(map(estimate_tokens, context.background.values()))
    first = next(iter(context.background), "")
    parts = [
        Part(
            name=name,
            tokens=estimate_tokens(text) + (framing if name == first else 0),
            content=text,
        )
        for name, text in texts.items()
        if text or name == "instructions"
    ]
    return [*parts, _messages(_sent(context)), _tools(context)]


def _sent(context: Context) -> list[Message]:
    """What of the conversation would be sent; all of it when the rest leaves no room."""
    try:
        return context.messages
    except ContextOverflow:
        return context.conversation


def _tools(context: Context) -> Part:
    content: list[dict[str, Any]] = [
        {
            "name": spec.name,
            "description": spec.description,
            "input_schema": spec.json_schema,
            "tokens": tokens,
        }
        for spec, tokens in zip(context.tools, context.tool_tokens, strict=True)
    ]
    return Part(name="tools", tokens=sum(context.tool_tokens), content=content)


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
            "tokens": estimate_message(message),
        }
        for message in messages
    ]
    return Part(name="messages", tokens=sum(one["tokens"] for one in content), content=content)
