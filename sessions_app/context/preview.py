"""Previews the prompt that the model would get if a run started now, by part, with token counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from agents.definitions import version_by_id
from agents.exceptions import ContextOverflow
from agents.providers.base import Message, estimate_tokens
from core.exceptions import NotFound
from sessions_app.context.builder import (
    Context,
    Memories,
    PromptInputs,
    build_context,
    load_basis,
    offered_tools,
)
from sessions_app.context.conversation import count_tokens
from sessions_app.context.notes import Note
from sessions_app.models import Session
from tools_app.policy.effective import load_session_binding


@dataclass(frozen=True, kw_only=True)
class ContextPart:
    """One part of the prompt. Its tokens are an estimate; the provider counts when it answers."""

    name: str
    tokens: int
    content: Any
    #: How many tokens are sent anew when this part changes: providers cache only beginnings. Zero for
    #: parts to which turns only add.
    resent: int = 0
    #: What people are told about the part beside its text.
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The parts of the prompt, and how much of the model's window they use."""

    provider: str
    model: str
    #: The model's window, how much of it may be used, and from how many tokens on it is compacted.
    window: int
    budget: int
    threshold: int
    snapshot_id: UUID | None
    parts: list[ContextPart]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


def preview(session: Session, viewer_id: UUID | None = None) -> Preview:
    """Build the preview as if the viewer's own message were answered.

    No viewer sees another person's memory.
    """
    version = version_by_id(session.agent_version_id)
    if session.provider:
        version.provider, version.model = session.provider, session.model
    bound = load_session_binding(session.pk)
    if bound is None:
        raise NotFound
    inputs = PromptInputs(
        workspace_id=session.workspace_id,
        agent_id=session.agent_id,
        session_id=session.pk,
        version=version,
        tools=offered_tools(bound.policy(), builds=session.about_id is not None),
        skills=bound.skills,
        basis=load_basis(session.pk, viewer_id=viewer_id),
    )
    context = build_context(inputs, version.provider, version.model)
    return Preview(
        provider=version.provider,
        model=version.model,
        window=context.budget.window,
        budget=context.budget.usable,
        threshold=context.budget.threshold,
        snapshot_id=inputs.basis.snapshot_id,
        parts=_with_resent(_parts(context)),
    )


#: The parts that stand in front of others, in the order in which vendors read them.
CACHED_PARTS = (
    "tools",
    "instructions",
    "skills",
    "more_tools",
    "pinned_memory",
    "attached_resources",
    "summary",
    "loaded_tools",
)


def _with_resent(parts: list[ContextPart]) -> list[ContextPart]:
    """Return the parts with the tokens that a change of each sends anew: its own and all behind it."""
    tokens = {part.name: part.tokens for part in parts}
    left = sum(tokens.values())
    resent: dict[str, int] = {}
    for name in CACHED_PARTS:
        resent[name] = left
        left -= tokens.get(name, 0)
    return [replace(part, resent=resent.get(part.name, 0)) for part in parts]


def _parts(context: Context) -> list[ContextPart]:
    texts = {
        "instructions": context.inputs.version.system_prompt,
        "skills": context.skills,
        **context.background,
    }
    # The messages around the background count with its first part.
    framing = count_tokens(context.briefing) - sum(
        map(estimate_tokens, context.background.values())
    )
    first = next(iter(context.background), "")
    parts = [
        ContextPart(
            name=name,
            tokens=estimate_tokens(text) + (framing if name == first else 0),
            content=text,
        )
        for name, text in texts.items()
        if text or name == "instructions"
    ]
    note = context.note.text
    if note:
        told = ContextPart(
            name="recalled_memory",
            tokens=estimate_tokens(note),
            content=note,
            notes=_reasons(context.memories, note),
        )
        parts.append(told)
    return [*parts, _messages(_sent(replace(context, note=Note()))), _tools(context)]


def _reasons(memories: Memories, text: str) -> list[str]:
    """Say why each document was recalled, and which found no room."""
    return [
        f"{one.path}: found by {one.reasons}"
        + ("" if f"### {one.path}\n" in text else "; left out, because there was no room")
        for one in memories.recalled
    ]


def _sent(context: Context) -> list[Message]:
    """Return the messages that would be sent, or all of them if the rest leaves no room."""
    try:
        return context.messages
    except ContextOverflow:
        return context.conversation


def _tools(context: Context) -> ContextPart:
    content: list[dict[str, Any]] = [
        {
            "name": spec.name,
            "description": spec.description,
            "input_schema": spec.json_schema,
            "tokens": spec.tokens,
        }
        for spec in context.tools
    ]
    return ContextPart(
        name="tools", tokens=sum(spec.tokens for spec in context.tools), content=content
    )


def _messages(messages: list[Message]) -> ContextPart:
    content: list[dict[str, Any]] = [
        {
            "role": message.role,
            "text": message.text,
            "thinking": message.thinking.text if message.thinking else "",
            "parts": [part.as_json() for part in message.parts],
            "calls": [{"name": c.name, "input": c.arguments} for c in message.calls],
            "results": [
                {
                    "name": r.name,
                    "output": r.output,
                    "is_error": r.is_error,
                    "parts": [part.as_json() for part in r.parts],
                }
                for r in message.results
            ],
            "tokens": message.tokens,
        }
        for message in messages
    ]
    return ContextPart(
        name="messages", tokens=sum(message["tokens"] for message in content), content=content
    )
