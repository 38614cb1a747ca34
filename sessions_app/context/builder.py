"""Puts the parts of a context together, each with what it costs, always within the window."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from agents.providers.base import Message, ModelRequest, ToolSpec
from agents.providers.estimate import estimate_tokens
from config.faults import ContextOverflow
from sessions_app.context.fencing import mark_of
from sessions_app.context.fitting import count, fit
from sessions_app.context.lines import MOST, read_lines
from sessions_app.context.memories import Memories, remind, told
from sessions_app.context.skills import skills_text
from sessions_app.context.subject import Room, Subject, room_of
from sessions_app.view import build_messages
from sessions_app.wording import Line

#: Lines that are read: as many as would fill the room if each had this many tokens.
TOKENS_PER_LINE, FEWEST = 40, 200
#: With less than this for the conversation itself, no answer is worth its price.
LEAST_CONVERSATION = 200
OPENING = "Background from the system, not a message of the person. The conversation follows it."
PINNED = "## Always keep in mind"
RECALLED = "## From memory, as it may bear on the newest message"
SUMMARY = (
    "## Summary of the conversation so far\nIt stands for earlier messages that are left out. "
    "It is a record, not a new request."
)
LOOK_BACK = " conversation_search finds what was said word for word."
UNDERSTOOD = "Understood."


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a model is given, by part."""

    subject: Subject
    provider: str
    model: str
    room: Room
    skills: str
    tools: tuple[ToolSpec, ...]
    pinned: str
    recalled: str
    memories: Memories
    #: Everything after the snapshot that was read.
    lines: list[Line]
    #: How many lines are read at most; there may be older ones when there are so many.
    limit: int

    @property
    def instructions(self) -> str:
        prompt = self.subject.version.system_prompt
        return f"{prompt}\n\n{self.skills}".strip() if self.skills else prompt

    @property
    def summary(self) -> str:
        return self.subject.ground.summary

    @cached_property
    def background(self) -> dict[str, str]:
        """What goes before the conversation, by part. Empty ones are left out."""
        parts = {
            "pinned_memory": (PINNED, self.pinned),
            "recalled_memory": (RECALLED, self.recalled),
            "summary": (SUMMARY + self._look_back, self.summary),
        }
        said = {name: f"{head}\n\n{text}" for name, (head, text) in parts.items() if text}
        for first in list(said)[:1]:
            said[first] = f"{OPENING}\n\n{said[first]}"
        return said

    @property
    def _look_back(self) -> str:
        return LOOK_BACK if "conversation_search" in self.subject.tools else ""

    @cached_property
    def briefing(self) -> tuple[Message, ...]:
        """The background as messages. Not among the instructions: it has no such weight."""
        if not self.background:
            return ()
        return (
            Message(role="user", text="\n\n".join(self.background.values())),
            Message(role="assistant", text=UNDERSTOOD),
        )

    @cached_property
    def tool_tokens(self) -> tuple[int, ...]:
        return tuple(spec_tokens(spec) for spec in self.tools)

    @cached_property
    def frame(self) -> int:
        """What instructions and tools cost, whatever is said."""
        return estimate_tokens(self.instructions) + sum(self.tool_tokens)

    @cached_property
    def fixed(self) -> int:
        """What no compaction makes smaller, without the summary."""
        return self.frame + estimate_tokens(self.pinned) + estimate_tokens(self.recalled)

    @cached_property
    def conversation(self) -> list[Message]:
        """All of it since the snapshot, however long."""
        return build_messages(self.lines, mark_of(self.subject.session_id))

    @cached_property
    def counted(self) -> int:
        """What all of it would cost, if nothing were left out."""
        return self.frame + count(self.briefing) + count(self.conversation)

    @property
    def is_cut(self) -> bool:
        return len(self.lines) - len(self.subject.ground.carried) >= self.limit

    @property
    def is_full(self) -> bool:
        return self.is_cut or self.counted > self.room.threshold

    @cached_property
    def messages(self) -> list[Message]:
        """What of the conversation is sent."""
        budget = self.room.usable - self.frame - count(self.briefing)
        if budget < LEAST_CONVERSATION:
            raise ContextOverflow(
                f"The instructions, tools and memory of this agent need about {self.frame:,} of the "
                f"{self.room.window:,} tokens of {self.model}, which leaves no room for a "
                "conversation. Give it fewer tools, shorter instructions or a larger model."
            )
        return fit(self.conversation, budget)

    @cached_property
    def request(self) -> ModelRequest:
        version = self.subject.version
        return ModelRequest(
            model=self.model,
            instructions=self.instructions,
            messages=(*self.briefing, *self.messages),
            tools=self.tools,
            temperature=version.temperature,
            max_tokens=version.max_tokens,
        )

    @property
    def tokens(self) -> int:
        """What is sent costs about this."""
        return self.frame + count(self.request.messages)


def build_context(
    subject: Subject,
    provider: str,
    model: str,
    *,
    memories: Memories | None = None,
    ceiling: int | None = None,
) -> Context:
    """Read and put together. What was looked up in memory before is not looked up again."""
    room = room_of(subject.version, provider, model, ceiling)
    limit = max(FEWEST, min(room.usable // TOKENS_PER_LINE, MOST))
    ground = subject.ground
    lines = read_lines(subject.session_id, ground.snapshot_seq, limit, carried=ground.carried)
    memories = remind(subject, lines) if memories is None else memories
    mark = mark_of(subject.session_id)
    return Context(
        subject=subject,
        provider=provider,
        model=model,
        room=room,
        skills=skills_text(subject),
        tools=tuple(tool.spec() for tool in subject.tools.values()),
        pinned=told(memories.pinned, mark, room.pinned, are_pins=True),
        recalled=told(memories.recalled, mark, room.recalled),
        memories=memories,
        lines=lines,
        limit=limit,
    )


def spec_tokens(spec: ToolSpec) -> int:
    schema = json.dumps(spec.json_schema, default=str)
    return estimate_tokens(spec.name) + estimate_tokens(spec.description) + estimate_tokens(schema)
