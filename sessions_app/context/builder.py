"""Builds a context: what a prompt is made of, what each part costs, and a request that fits the
model's window.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast
from uuid import UUID

import orjson
import structlog
from django.db import DatabaseError

from agents.exceptions import ContextOverflow
from agents.limits import limits_of
from agents.model_catalog import find_model
from agents.models import AgentVersion
from agents.providers.base import Effort, Message, ModelRequest, ToolSpec, estimate_tokens
from core.exceptions import Fault
from memory.documents import content_of, pinned_entries
from memory.models import MemoryEntry
from memory.ownership import Reader
from memory.recall import LONGEST_QUERY, Hit, Search, recall
from sessions_app.context.conversation import (
    CHARACTERS_PER_TOKEN,
    MAX_ENTRIES,
    LogEntry,
    apply_edits,
    count_tokens,
    fit,
)
from sessions_app.context.deferred import (
    describe_tools,
    disclosure_specs,
    find_tool,
    list_tools,
    split_tools,
)
from sessions_app.context.known_entries import newest, read_entries, recent
from sessions_app.context.notes import Note, earlier_notes, is_noted
from sessions_app.log.sql import row
from sessions_app.models import SessionEvent
from sessions_app.resources.parts import with_contents
from tools_app.policy.evaluation import EffectivePolicy
from tools_app.registry import Category, Tool
from tools_app.skills import prompt_lines
from tools_app.taint import clip_for_model, fence, fence_mark

log = structlog.get_logger(__name__)

ORDER_OF_OWNERS = {"managed": 0, "custom": 1, "mcp": 2}
LOAD_BASIS = "SELECT context_basis(%s, %s, %s)::text"
#: The parts of a window that are kept free for the answer (1/4) and for estimation errors (1/20).
ANSWER_PART, MARGIN_PART = 4, 20
#: Compaction starts at this share of the usable tokens, before anything must be left out.
NEARLY_FULL = 0.9


@dataclass(frozen=True, kw_only=True)
class ContextBasis:
    """The state of a session that its context is built from.

    A run reads it once, and again after something has changed it.
    """

    snapshot_id: UUID | None = None
    snapshot_seq: int = 0
    summary: str = ""
    #: Entries up to `snapshot_seq` that the snapshot does not cover.
    carried: Sequence[int] = ()
    #: Deferred tools that the model loaded in what the snapshot stands for.
    loaded_tools: Sequence[str] = ()
    flushed_seq: int = 0
    compact_after_seq: int = 0
    last_seq: int = 0
    #: The author of the message being answered. No other person's memory is searched.
    speaker_id: UUID | None = None
    has_memory: bool = False
    #: Mount path, kind, access, status and reason of each attached resource, by path.
    resources: Sequence[Sequence[str]] = ()
    #: Paths of the newest files that came with messages which the snapshot stands for.
    earlier_files: Sequence[str] = ()


def load_basis(
    session_id: UUID, *, run_id: UUID | None = None, viewer_id: UUID | None = None
) -> ContextBasis:
    """Read the basis for a run of this session, or for a preview that a viewer asked for."""
    (packed,) = row(LOAD_BASIS, [session_id, run_id, viewer_id])
    return read_basis(orjson.loads(packed))


def read_basis(found: dict[str, Any]) -> ContextBasis:
    """Return what `context_basis` in `sql/turns.sql` returned."""
    for name in ("snapshot_id", "speaker_id"):
        found[name] = UUID(found[name]) if found[name] else None
    return ContextBasis(**found)


@dataclass(frozen=True, kw_only=True)
class PromptInputs:
    """A session, the version of the agent that runs it, its tools, and the basis of its context."""

    workspace_id: UUID
    agent_id: UUID
    session_id: UUID
    version: AgentVersion
    tools: Mapping[str, Tool]
    #: The name and description of each skill.
    skills: Sequence[tuple[str, str]] = ()
    basis: ContextBasis

    @property
    def may_recall(self) -> bool:
        """Return whether policy and agent let memory be searched before an answer."""
        return "memory_search" in self.tools and limits_of(self.version).recall_memory

    @property
    def may_store(self) -> bool:
        """Return whether policy and agent let compaction save to memory."""
        return "memory_store" in self.tools and limits_of(self.version).save_before_compacting


def offered_tools(policy: EffectivePolicy, *, builds: bool) -> dict[str, Tool]:
    """Return the tools to offer to the model: not denied, and of use in this session.

    Their order is fixed: tools that are added to a server later change as little as possible of
    what a provider has cached.
    """
    offered = [
        tool
        for tool in policy.offered().values()
        if (builds or tool.category != Category.BUILDER) and not tool.for_canvas
    ]
    offered.sort(key=lambda tool: (ORDER_OF_OWNERS[tool.ownership], tool.name))
    return {tool.name: tool for tool in offered}


@dataclass(frozen=True, kw_only=True)
class TokenBudget:
    """How many tokens of a model's window may be used, and from how many on it is compacted."""

    window: int
    usable: int
    threshold: int
    #: Whether the model can call tools, as far as is known.
    takes_tools: bool = True
    #: The most that the model can write in one answer.
    longest_answer: int | None = None

    @property
    def pinned(self) -> int:
        return self.window // 10

    @property
    def resources(self) -> int:
        return self.window // 20

    @property
    def recalled(self) -> int:
        return min(1_500, self.window // 10)

    @property
    def summary(self) -> int:
        return max(300, min(2_000, self.window // 10))


def token_budget(
    version: AgentVersion, provider: str, model: str, ceiling: int | None = None
) -> TokenBudget:
    """Return the token budget of a model.

    `ceiling` is the number of tokens that the provider took when its window proved to be smaller
    than the catalog says.
    """
    info = find_model(provider, model, workspace_id=version.workspace_id)
    answer = min(version.max_tokens or info.max_output, info.window // ANSWER_PART)
    usable = info.window - answer - info.window // MARGIN_PART
    usable = min(usable, ceiling) if ceiling else usable
    share = limits_of(version).compact_at_percent
    threshold = min(info.window * share // 100, int(usable * NEARLY_FULL))
    return TokenBudget(
        window=info.window,
        usable=usable,
        threshold=threshold,
        takes_tools=info.tools is not False,
        longest_answer=info.max_output,
    )


# ── Memories ─────────────────────────────────────────────────────────────────────────────────────

MAX_HITS = 6
#: How strong a match must be to be shown although the model did not search for it.
MIN_STRENGTH = 0.15
#: The length of the list of pins that do not fit.
UNSHOWN_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One document or excerpt to show to the model."""

    entry_id: UUID
    path: str
    text: str
    trusted: bool
    #: Whether only the speaker may read it.
    personal: bool = False
    #: Why it was recalled, for people who look at the context.
    reasons: str = ""


@dataclass(frozen=True, kw_only=True)
class Memories:
    """What a run looks up once for its newest message."""

    pinned: tuple[Memory, ...] = ()
    #: What the note beside the newest message tells. Empty once the note is in the log.
    recalled: tuple[Memory, ...] = ()
    #: Why resources failed, if the model was not told yet.
    failures: str = ""

    @property
    def has_untrusted(self) -> bool:
        """Return whether any of it was written by an unknown author."""
        memories = (*self.pinned, *self.recalled)
        return bool(self.failures) or any(not memory.trusted for memory in memories)

    def once_noted(self) -> Memories:
        """Return what is left to tell when the note is in the log."""
        return replace(self, recalled=(), failures="")


def find_memories(
    inputs: PromptInputs, entries: Sequence[LogEntry], budget: TokenBudget
) -> Memories:
    """Look up pinned documents, recall what fits the newest message, and note failed resources.

    Without memory or the permission to search it, nothing is searched. What the conversation holds
    already is not told again.
    """
    basis = inputs.basis
    told = "\n".join(earlier_notes(entries, basis.speaker_id)) if entries else ""
    failures = render_failures(basis, fence_mark(inputs.session_id), budget.resources)
    failures = "" if failures in told else failures
    if not basis.has_memory or not inputs.may_recall:
        return Memories(failures=failures)
    reader = Reader(
        workspace_id=inputs.workspace_id,
        agent_id=inputs.agent_id,
        user_id=basis.speaker_id,
        session_id=inputs.session_id,
    )
    pinned = tuple(_pinned(entry) for entry in pinned_entries(reader))
    if is_noted(entries):
        return Memories(pinned=pinned)
    known = {memory.entry_id for memory in pinned}
    mark = fence_mark(inputs.session_id)
    recalled = tuple(
        memory
        for hit in _recall(reader, newest_user_text(entries))
        if hit.entry_id not in known
        and _render(memory := _recalled(hit), mark, memory.text) not in told
    )
    return Memories(pinned=pinned, recalled=recalled, failures=failures)


def _recall(reader: Reader, query: str) -> list[Hit]:
    """Search memory. A search that fails must not keep the agent from answering."""
    if not query.strip():
        return []
    try:
        found = recall(reader, query[:LONGEST_QUERY], Search(limit=MAX_HITS))
    except (Fault, DatabaseError) as error:
        log.warning("recall_failed", why=str(error).strip())
        return []
    return [hit for hit in found if not hit.weak and hit.strength >= MIN_STRENGTH]


def newest_user_text(entries: Sequence[LogEntry]) -> str:
    """Return the newest message of a person, in its newest wording."""
    for entry in reversed(apply_edits(entries)):
        if entry.type == SessionEvent.Type.USER_MESSAGE and entry.taken:
            return str(entry.payload.get("text", ""))
    return ""


def _pinned(entry: MemoryEntry) -> Memory:
    return Memory(
        entry_id=entry.pk,
        path=entry.path,
        text=content_of(entry),
        trusted=entry.trust == MemoryEntry.Trust.TRUSTED,
    )


def _recalled(hit: Hit) -> Memory:
    return Memory(
        entry_id=hit.entry_id,
        path=f"{hit.path} ({hit.updated_at:%Y-%m-%d})",
        text=hit.excerpt,
        trusted=hit.trust == MemoryEntry.Trust.TRUSTED,
        personal=hit.scope == MemoryEntry.Scope.USER,
        reasons=hit.reasons,
    )


def render_memories(
    memories: tuple[Memory, ...], mark: str, budget: int, *, are_pins: bool = False
) -> str:
    """Return as many memories as fit, as text for the model; the last one may be clipped.

    Pins that do not fit are named, because their authors rely on them.
    """
    pieces: list[str] = []
    left = budget
    for memory in memories:
        piece = _render(memory, mark, memory.text)
        if (cost := estimate_tokens(piece)) > left:
            text = clip_for_model(memory.text, left * CHARACTERS_PER_TOKEN // 2)
            piece = _render(memory, mark, text)
            cost = estimate_tokens(piece)
            if left < 60 or cost > left:
                break
        pieces.append(piece)
        left -= cost
    if are_pins and (rest := [memory.path for memory in memories[len(pieces) :]]):
        named = textwrap.shorten(", ".join(rest), UNSHOWN_CHARACTERS, placeholder=" …")
        pieces.append(f"(Also pinned, but there is no room; memory_get reads them: {named})")
    return "\n\n".join(pieces)


def _render(memory: Memory, mark: str, text: str) -> str:
    text = text.strip()
    body = text if memory.trusted else fence(text, mark, f"memory {memory.path}")
    return f"### {memory.path}\n{body}"


def make_note(memories: Memories, mark: str, budget: TokenBudget, speaker_id: UUID | None) -> Note:
    """Return what the model is told beside the newest message, as much as fits."""
    shared = tuple(memory for memory in memories.recalled if not memory.personal)
    own = tuple(memory for memory in memories.recalled if memory.personal)
    recalled = render_memories(shared, mark, budget.recalled)
    left = budget.recalled - estimate_tokens(recalled)
    return Note(
        failures=memories.failures,
        recalled=recalled,
        personal=render_memories(own, mark, left),
        speaker_id=speaker_id,
        paths=tuple(memory.path for memory in shared),
    )


def skills_text(inputs: PromptInputs) -> str:
    """Return the list of the agent's skills, or nothing if it may not load any."""
    if "skill_load" not in inputs.tools:
        return ""
    return prompt_lines(inputs.skills)


# ── Resources ────────────────────────────────────────────────────────────────────────────────────

#: Characters of a path and of a reason: both come from outside.
MAX_PATH, MAX_REASON = 200, 300


def render_resources(basis: ContextBasis, budget: int) -> str:
    """Return what is attached to the session, as text for the model. What does not fit is counted.

    Nothing in it changes while resources are prepared; a note tells which of them failed.
    """
    files = [
        f"- {one_line(path, MAX_PATH)}: sent with an earlier message"
        for path in dict.fromkeys(basis.earlier_files)
    ]
    lines: list[str] = []
    left = budget
    everything = [*map(_resource_line, basis.resources), *files]
    for line in everything:
        left -= estimate_tokens(line)
        if left < 0:
            lines.append(f"({len(everything) - len(lines)} more are attached.)")
            break
        lines.append(line)
    return "\n".join(lines)


def _resource_line(resource: Sequence[str]) -> str:
    path, kind, access, _, _ = resource
    words = f"{kind.replace('_', ' ')}, {access.replace('_', ' ')}"
    return f"- {one_line(path, MAX_PATH)}: {words}"


def render_failures(basis: ContextBasis, mark: str, budget: int) -> str:
    """Return why resources failed, one line each, in a fence: servers and repositories word it."""
    reasons = [
        f"{one_line(path, MAX_PATH)}: {one_line(reason, MAX_REASON)}"
        for path, _, _, status, reason in basis.resources
        if status == "failed" and reason
    ]
    told = "\n".join(reasons)[: budget * CHARACTERS_PER_TOKEN]
    return fence(told, mark, "why resources failed") if told else ""


def one_line(text: str, limit: int) -> str:
    """Return text from outside on one line, without control characters and cut to size."""
    printable = "".join(sign if sign.isprintable() else " " for sign in text)
    line = " ".join(printable.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


# ── The context ──────────────────────────────────────────────────────────────────────────────────

#: As many entries are read as would fill the budget if each had this many tokens.
TOKENS_PER_ENTRY, MIN_ENTRIES = 40, 200
#: Tokens that must be left for the conversation, or no useful answer can be expected.
MIN_CONVERSATION = 200
OPENING = "Background from the system, not a message of the person. The conversation follows it."
PINNED = "## Always keep in mind"
RESOURCES = (
    "## Attached resources\nYour file tools and commands find them beside the session's files. They "
    "are prepared when a tool first uses them."
)
SUMMARY = (
    "## Summary of the conversation so far\nIt stands for earlier messages that are left out. "
    "It is a record, not a new request."
)
LOADED = "## Tools that you loaded\ntool_call calls them."
SEARCH_HINT = " conversation_search finds the original messages, by words and by meaning."
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
    #: The list of deferred tools, and the schemas of those that were loaded before the snapshot.
    more_tools: str
    loaded_tools: str
    pinned: str
    resources: str
    #: What stands beside the newest message and is not in the log yet.
    note: Note
    memories: Memories
    #: The entries after the snapshot.
    entries: Sequence[LogEntry]
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
            "more_tools": ("", self.more_tools),
            "pinned_memory": (PINNED, self.pinned),
            "attached_resources": (RESOURCES, self.resources),
            "summary": (SUMMARY + self._search_hint, self.summary),
            "loaded_tools": (LOADED, self.loaded_tools),
        }
        texts = {name: f"{head}\n\n{text}".strip() for name, (head, text) in parts.items() if text}
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
    def frame(self) -> int:
        """Return the tokens of instructions and tools, which every request carries."""
        return estimate_tokens(self.instructions) + sum(spec.tokens for spec in self.tools)

    @cached_property
    def fixed(self) -> int:
        """Return the tokens that compaction cannot reduce, without the summary."""
        parts = (
            self.more_tools,
            self.loaded_tools,
            self.pinned,
            self.resources,
            self.note.text,
        )
        return self.frame + sum(map(estimate_tokens, parts))

    @cached_property
    def conversation(self) -> list[Message]:
        """Return the whole conversation since the snapshot, however long, with the note."""
        return recent.messages(
            self.inputs.session_id,
            self.entries,
            speaker_id=self.inputs.basis.speaker_id,
            note=self.note.text,
        )

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
            messages=with_contents(
                (*self.briefing, *self.messages),
                self.inputs.workspace_id,
                find_model(self.provider, self.model, workspace_id=self.inputs.workspace_id),
            ),
            tools=self.tools,
            temperature=version.temperature,
            max_tokens=version.max_tokens,
            stable_messages=self.stable_messages,
            longest_answer=self.budget.longest_answer,
            effort=cast("Effort | None", version.effort or None),
        )

    @property
    def stable_messages(self) -> int:
        """Return how many of the first messages later requests repeat unchanged.

        If the conversation had to be cut to fit, the next request will cut it at another place.
        """
        is_whole = self.messages is self.conversation
        return len(self.briefing) + (len(self.messages) if is_whole else 0)

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
    entries: Sequence[LogEntry] | None = None,
    ceiling: int | None = None,
) -> Context:
    """Read the entries and memories of a session and build its context.

    Memories that were looked up before, and all entries since the snapshot if they were just read,
    are passed in and not looked up again.
    """
    budget = token_budget(inputs.version, provider, model, ceiling)
    limit = max(MIN_ENTRIES, min(budget.usable // TOKENS_PER_ENTRY, MAX_ENTRIES))
    basis = inputs.basis
    if entries is None:
        entries = read_entries(
            inputs.session_id,
            limit,
            snapshot_id=basis.snapshot_id,
            snapshot_seq=basis.snapshot_seq,
            carried=basis.carried,
        )
    entries = newest(entries, limit, basis.carried)
    memories = find_memories(inputs, entries, budget) if memories is None else memories
    mark = fence_mark(inputs.session_id)
    direct, deferred = split_tools(inputs.tools) if budget.takes_tools else ({}, {})
    loaded = [tool for name in basis.loaded_tools if (tool := find_tool(name, deferred))]
    return Context(
        inputs=inputs,
        provider=provider,
        model=model,
        budget=budget,
        skills=skills_text(inputs),
        tools=(
            *(tool.spec for tool in direct.values()),
            *(disclosure_specs() if deferred else ()),
        ),
        more_tools=list_tools(deferred) if deferred else "",
        loaded_tools=describe_tools(loaded),
        pinned=render_memories(memories.pinned, mark, budget.pinned, are_pins=True),
        resources=render_resources(basis, budget.resources),
        note=make_note(memories, mark, budget, basis.speaker_id),
        memories=memories,
        entries=entries,
        limit=limit,
    )
