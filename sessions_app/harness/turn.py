"""The state of one run while a worker executes it: what it answers, its limits, and what it has
spent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from agents.definitions import version_by_id
from agents.limits import Limits, limits_of
from agents.models import AgentVersion
from agents.providers.base import Usage
from sessions_app.context.builder import (
    ContextBasis,
    Memories,
    PromptInputs,
    load_basis,
    offered_tools,
)
from sessions_app.exceptions import LimitReached
from sessions_app.lanes.run_queue import Claim
from sessions_app.lanes.signals import StopSignal
from sessions_app.log.sql import named_row
from sessions_app.outcomes.criteria import Outcome
from tools_app.policy.effective import effective_policy
from tools_app.policy.evaluation import EffectivePolicy
from tools_app.registry import Tool
from tools_app.sandbox.base import Mount


@dataclass(kw_only=True)
class Spent:
    """What a run has used so far."""

    model_calls: int = 0
    #: Tool calls by id: a call that is retried, or waits before it runs, counts once.
    calls: set[UUID] = field(default_factory=set)
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)
    started: float = field(default_factory=time.monotonic)

    @property
    def tool_calls(self) -> int:
        return len(self.calls)

    def add(self, usage: Usage, cost: Decimal) -> None:
        self.model_calls += 1
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cost += cost

    def add_aside(self, usage: Usage, cost: Decimal) -> None:
        """Add a call that is no step of the answer: it costs, but does not count as a model call."""
        self.add(usage, cost)
        self.model_calls -= 1

    def as_json(self) -> dict[str, Any]:
        return {
            "model_calls": self.model_calls,
            "tool_calls": self.tool_calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": str(self.cost),
        }


LOAD = """
SELECT s.workspace_id, s.agent_id, s.agent_version_id, s.environment_id, s.about_id, q.purpose,
       q.attempts > 1 OR q.resumes AS recovering, q.wishes, r.created_by_id AS sender_id, r.key_id,
       s.outcome, s.ancestors,
       EXISTS (SELECT 1 FROM subagent_spawns w
                WHERE w.child_session_id = s.id AND w.status = 'running') AS awaited,
       CASE WHEN q.resumes THEN (
         SELECT count(*) FROM tool_executions t
          WHERE t.session_id = s.id AND t.finished_at IS NOT NULL AND t.decision <> 'deny'
            AND t.workflow_id IS NULL AND t.created_at >= r.started_at) ELSE 0 END AS earlier_tool_calls
  FROM agent_sessions s JOIN agent_run_queue q ON q.id = %s
  JOIN agent_run_queue r ON r.id = coalesce(turn_root(q.id), q.id) WHERE s.id = %s
"""


@dataclass(kw_only=True)
class Turn:
    """Everything that the steps of a run share."""

    claim: Claim
    owner: UUID
    stop_signal: StopSignal
    workspace_id: UUID
    agent_id: UUID
    environment_id: UUID | None
    recovering: bool
    purpose: str
    #: Options of a requested compaction.
    compaction_options: dict[str, Any]
    basis: ContextBasis
    version: AgentVersion
    limits: Limits
    policy: EffectivePolicy
    #: The sender of the message that this turn answers, and their key: they pay.
    sender_id: UUID | None = None
    key_id: UUID | None = None
    #: The agent that this builder session builds.
    about_id: UUID | None = None
    #: The outcome that the session is judged by at the end of the run.
    outcome: Outcome | None = None
    #: The sessions above this one, from the root down.
    ancestors: Sequence[UUID] = ()
    #: Whether another session waits for the answer.
    awaited: bool = False
    #: Tool calls of earlier runs of this turn.
    earlier_tool_calls: int = 0
    spent: Spent = field(default_factory=Spent)
    #: What its sandbox and file tools see beside the session's own files; see `resources/mounts.py`.
    mounts: tuple[Mount, ...] = ()
    #: Secrets that were mounted into its sandbox. They are removed from tool output.
    secrets: tuple[str, ...] = ()
    #: Resources that this turn has prepared or tried to prepare.
    prepared: dict[UUID, Path] = field(default_factory=dict)
    #: Memories for the newest message, looked up once.
    memories: Memories | None = None
    #: Tokens that the provider took when its window proved smaller than the catalog says.
    ceiling: int | None = None
    #: Digests of (tool, arguments, result), newest last, to detect a stuck loop.
    traces: list[str] = field(default_factory=list)

    @property
    def session_id(self) -> UUID:
        return self.claim.session_id

    @property
    def user_id(self) -> UUID | None:
        """Return the author of the message being answered."""
        return self.basis.speaker_id

    @property
    def inputs(self) -> PromptInputs:
        return PromptInputs(
            workspace_id=self.workspace_id,
            agent_id=self.agent_id,
            session_id=self.session_id,
            version=self.version,
            tools=self.tools,
            basis=self.basis,
        )

    def reload_basis(self, *, new_message: bool = False) -> None:
        """Read the basis of the context again.

        With `new_message`, memories are looked up again too, because they depend on the message.
        """
        self.basis = load_basis(self.session_id, run_id=self.claim.run_id)
        if new_message:
            self.memories = None

    @property
    def tools(self) -> dict[str, Tool]:
        return offered_tools(self.policy, builds=self.about_id is not None)

    @property
    def tool_calls(self) -> int:
        """Return the number of tool calls in the whole turn."""
        return self.earlier_tool_calls + self.spent.tool_calls

    @property
    def seconds_left(self) -> float:
        return self.limits.max_seconds - (time.monotonic() - self.spent.started)

    def check_time(self) -> None:
        """Raise if the run was told to stop or has reached its time limit."""
        self.stop_signal.check()
        if self.seconds_left <= 0:
            raise LimitReached(
                f"This run reached its limit of {self.limits.max_seconds:,} seconds."
            )

    def check_bounds(self) -> None:
        """Raise LimitReached if the run has reached one of its limits."""
        self.check_time()
        limits, spent = self.limits, self.spent
        tokens = spent.input_tokens + spent.output_tokens
        for name, used, bound in (
            ("model calls", spent.model_calls, limits.max_model_calls),
            ("tool calls", self.tool_calls, limits.max_tool_calls),
            ("tokens", tokens, limits.max_tokens_total),
        ):
            # With a bound of zero tool calls the model may still answer; its first call is refused.
            if used >= max(bound, 1):
                raise LimitReached(f"This run reached its limit of {bound:,} {name}.")

    def policy_json(self) -> dict[str, Any]:
        return {
            name: {"decision": d.decision, "decided_by": d.decided_by}
            for name, d in self.policy.items()
        }


def load_turn(claim: Claim, owner: UUID, stop_signal: StopSignal) -> Turn:
    """Read what a claimed run needs: one row, its policy, and a version that never changes.

    A run that resumes after an answer belongs to the turn that waited, and so do the calls of that
    turn.
    """
    found = named_row(LOAD, [claim.run_id, claim.session_id])
    version = version_by_id(found.pop("agent_version_id"))
    policy = effective_policy(version, claim.session_id)
    options, outcome = found.pop("wishes"), found.pop("outcome")
    return Turn(
        claim=claim,
        owner=owner,
        stop_signal=stop_signal,
        compaction_options=orjson.loads(options),
        basis=load_basis(claim.session_id, run_id=claim.run_id),
        version=version,
        limits=_narrowed(limits_of(version), policy.max_tool_calls),
        policy=policy,
        outcome=Outcome.model_validate_json(outcome) if outcome else None,
        **found,
    )


def _narrowed(limits: Limits, max_tool_calls: int | None) -> Limits:
    """Return the agent's limits, with the policy's number of tool calls if that is smaller."""
    if max_tool_calls is None or max_tool_calls >= limits.max_tool_calls:
        return limits
    return limits.model_copy(update={"max_tool_calls": max_tool_calls})
