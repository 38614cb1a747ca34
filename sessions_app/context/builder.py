"""Builds a context: the parts of a prompt, what each costs, and a request that fits the model's
window.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from agents.exceptions import ContextOverflow
from agents.providers.base import Message, ModelRequest, ToolSpec, estimate_tokens
from sessions_app.context.conversation import (
    MAX_ENTRIES,
    LogEntry,
    build_messages,
    count_tokens,
    fit,
    read_newest,
)
from sessions_app.context.inputs import PromptInputs, TokenBudget, token_budget
from sessions_app.context.memories import Memories, find_memories, render_memories, skills_text
from tools_app.taint import fence_mark

#: As many entries are read as would fill the budget if each had this many tokens.
TOKENS_PER_ENTRY, MIN_ENTRIES = 40, 200
#: Tokens that must be left for the conversation, or no useful answer can be expected.
MIN_CONVERSATION = 200
OPENING = "Background from the system, not a message of the person. The conversation follows it."
PINNED = "## Always keep in mind"
RECALLED = "## From memory, as it may bear on the newest message"
SUMMARY = (
    "## Summary of the conversation so far\nIt stands for earlier messages that are left out. "
    "It is a record, not a new request."
)
SEARCH_HINT = " conversation_search finds the original messages word for word."
UNDERSTOOD = "Understood."


@dataclass(frozen=True, kw_only=True)
class Context:
    """The prompt of one model call, by part."""

    inputs: PromptInputs
    provider: str
    model: str
    budget: TokenBudget
    skills: str
    tools: tuple[ToolSpec, ...]
    pinned: str
    recalled: str
    memories: Memories
    #: The entries after the snapshot.
    entries: list[LogEntry]
    #: How many entries are read at most. If that many were read, there may be older ones.
    limit: int

    @property
    def instructions(self) -> str:
        prompt = self.inputs.version.system_prompt
        return f"{prompt}\n\n{self.skills}".strip() if self.skills else prompt

    @property
    def summary(self) -> str:
        return self.inputs.basis.summary

    @cached_property
    def background(self) -> dict[str, str]:
        """Return the non-empty parts that come before the conversation, by name."""
        parts = {
            "pinned_memory": (PINNED, self.pinned),
            "recalled_memory": (RECALLED, self.recalled),
            "summary": (SUMMARY + self._search_hint, self.summary),
        }
        texts = {name: f"{head}\n\n{text}" for name, (head, text) in parts.items() if text}
        for first in list(texts)[:1]:
            texts[first] = f"{OPENING}\n\n{texts[first]}"
        return texts

    @property
    def _search_hint(self) -> str:
        return SEARCH_HINT if "conversation_search" in self.inputs.tools else ""

    @cached_property
    def briefing(self) -> tuple[Message, ...]:
        """Return the background as messages, because it must not have the weight of instructions."""
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
        """Return the tokens of instructions and tools, which every request carries."""
        return estimate_tokens(self.instructions) + sum(self.tool_tokens)

    @cached_property
    def fixed(self) -> int:
        """Return the tokens that compaction cannot reduce, without the summary."""
        return self.frame + estimate_tokens(self.pinned) + estimate_tokens(self.recalled)

    @cached_property
    def conversation(self) -> list[Message]:
        """Return the whole conversation since the snapshot, however long."""
        return build_messages(self.entries, fence_mark(self.inputs.session_id))

    @cached_property
    def total_tokens(self) -> int:
        """Return the tokens that the context would have if nothing were left out."""
        return self.frame + count_tokens(self.briefing) + count_tokens(self.conversation)

    @property
    def is_cut(self) -> bool:
        """Return whether there may be older entries than those that were read."""
        return len(self.entries) - len(self.inputs.basis.carried) >= self.limit

    @property
    def is_full(self) -> bool:
        """Return whether the context should be compacted."""
        return self.is_cut or self.total_tokens > self.budget.threshold

    @cached_property
    def messages(self) -> list[Message]:
        """Return the part of the conversation that is sent."""
        available = self.budget.usable - self.frame - count_tokens(self.briefing)
        if available < MIN_CONVERSATION:
            raise ContextOverflow(
                f"The instructions, tools and memory of this agent need about {self.frame:,} of the "
                f"{self.budget.window:,} tokens of {self.model}, which leaves no room for a "
                "conversation. Give it fewer tools, shorter instructions or a larger model."
            )
        return fit(self.conversation, available)

    @cached_property
    def request(self) -> ModelRequest:
        version = self.inputs.version
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
        """Return the estimated tokens of what is sent."""
        return self.frame + count_tokens(self.request.messages)


def build_context(
    inputs: PromptInputs,
    provider: str,
    model: str,
    *,
    memories: Memories | None = None,
    ceiling: int | None = None,
) -> Context:
    """Read the entries and memories of a session and build its context.

    Memories that were looked up before are passed in and not looked up again.
    """
    budget = token_budget(inputs.version, provider, model, ceiling)
    limit = max(MIN_ENTRIES, min(budget.usable // TOKENS_PER_ENTRY, MAX_ENTRIES))
    basis = inputs.basis
    entries = read_newest(inputs.session_id, basis.snapshot_seq, limit, carried=basis.carried)
    memories = find_memories(inputs, entries) if memories is None else memories
    mark = fence_mark(inputs.session_id)
    return Context(
        inputs=inputs,
        provider=provider,
        model=model,
        budget=budget,
        skills=skills_text(inputs),
        tools=tuple(tool.spec() for tool in inputs.tools.values()),
        pinned=render_memories(memories.pinned, mark, budget.pinned, are_pins=True),
        recalled=render_memories(memories.recalled, mark, budget.recalled),
        memories=memories,
        entries=entries,
        limit=limit,
    )


def spec_tokens(spec: ToolSpec) -> int:
    schema = json.dumps(spec.json_schema, default=str)
    return estimate_tokens(spec.name) + estimate_tokens(spec.description) + estimate_tokens(schema)
