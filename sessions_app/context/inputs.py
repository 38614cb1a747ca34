"""The inputs of a prompt: the session's state, the agent's version and tools, and the token budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from agents.limits import limits_of
from agents.model_catalog import find_model
from agents.models import AgentVersion
from sessions_app.log.sql import row
from tools_app.policy.evaluation import EffectivePolicy
from tools_app.registry import Category, Tool

# One statement that reads a few rows by their keys, however long the session is.
LOAD = """
SELECT c.id, s.snapshot_seq, coalesce(c.summary, ''), coalesce(c.carried, '{}'), s.flushed_seq,
       s.compact_after_seq, s.last_seq, who.id,
       memory_exists(s.workspace_id, ARRAY[s.workspace_id, s.agent_id, s.id, who.id])
  FROM agent_sessions s
  LEFT JOIN agent_run_queue q ON q.id = %s
  LEFT JOIN LATERAL (
    SELECT n.id, n.summary, n.carried FROM agent_context_snapshots n
     WHERE n.session_id = s.id AND n.undone_at IS NULL ORDER BY n.id DESC LIMIT 1) c ON true
  LEFT JOIN agent_run_queue r ON r.id = coalesce(turn_root(q.id), q.id)
  CROSS JOIN LATERAL (SELECT CASE
    WHEN q.id IS NULL THEN %s::uuid
    -- The sender of a steered message counts only once the run has taken the message.
    WHEN cardinality(r.message_seqs || q.message_seqs) > 0 THEN (
      SELECT m.created_by_id FROM session_messages m
       WHERE m.session_id = s.id AND m.seq = ANY(r.message_seqs || q.message_seqs)
         AND m.processed_at IS NOT NULL ORDER BY m.seq DESC LIMIT 1)
    ELSE r.created_by_id END AS id) who
 WHERE s.id = %s
"""
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
    carried: tuple[int, ...] = ()
    flushed_seq: int = 0
    compact_after_seq: int = 0
    last_seq: int = 0
    #: The author of the message being answered. No other person's memory is searched.
    speaker_id: UUID | None = None
    has_memory: bool = False


def load_basis(
    session_id: UUID, *, run_id: UUID | None = None, viewer_id: UUID | None = None
) -> ContextBasis:
    """Read the basis for a run of this session, or for a preview that a viewer asked for."""
    found = row(LOAD, [run_id, viewer_id, session_id])
    snapshot_id, snapshot_seq, summary, carried, flushed, after, last, speaker, memory = found
    return ContextBasis(
        snapshot_id=snapshot_id,
        snapshot_seq=snapshot_seq,
        summary=summary,
        carried=tuple(carried),
        flushed_seq=flushed,
        compact_after_seq=after,
        last_seq=last,
        speaker_id=speaker,
        has_memory=memory,
    )


@dataclass(frozen=True, kw_only=True)
class PromptInputs:
    """A session, the version of the agent that runs it, its tools, and the basis of its context."""

    workspace_id: UUID
    agent_id: UUID
    session_id: UUID
    version: AgentVersion
    tools: Mapping[str, Tool]
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
    """Return the tools to offer to the model: not denied, and of use in this session."""
    return {
        name: tool
        for name, tool in policy.offered().items()
        if builds or tool.category != Category.BUILDER
    }


@dataclass(frozen=True, kw_only=True)
class TokenBudget:
    """How many tokens of a model's window may be used, and from how many on it is compacted."""

    window: int
    usable: int
    threshold: int

    @property
    def pinned(self) -> int:
        return self.window // 10

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
    info = find_model(provider, model)
    answer = min(version.max_tokens or info.max_output, info.window // ANSWER_PART)
    usable = info.window - answer - info.window // MARGIN_PART
    usable = min(usable, ceiling) if ceiling else usable
    share = limits_of(version).compact_at_percent
    threshold = min(info.window * share // 100, int(usable * NEARLY_FULL))
    return TokenBudget(window=info.window, usable=usable, threshold=threshold)
