"""The state of one run while a worker executes it: what it answers, its limits, and what it has
spent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agents.definitions import override_model, version_by_id
from agents.limits import Limits, limits_of
from agents.models import AgentVersion
from agents.providers.base import Usage
from sessions_app.context.builder import (
    ContextBasis,
    Memories,
    PromptInputs,
    load_basis,
    offered_tools,
    read_basis,
)
from sessions_app.context.conversation import LogEntry, parse_entries
from sessions_app.context.deferred import DISCLOSURE, split_tools
from sessions_app.context.known_entries import KnownEntries, remember
from sessions_app.context.notes import Note
from sessions_app.context.taint import exposure_of, mark_tainted
from sessions_app.exceptions import LimitReached
from sessions_app.lanes import run_queue
from sessions_app.lanes.run_queue import Claim, LoadedRun
from sessions_app.lanes.signals import StopSignal
from sessions_app.log.payloads import RunOverrides
from sessions_app.log.writer import NewEvent
from sessions_app.models import Run
from sessions_app.outcomes.criteria import Outcome
from tenants.billing.spending import Charge
from tools_app.policy.effective import read_binding
from tools_app.policy.evaluation import EffectivePolicy
from tools_app.registry import Tool
from tools_app.sandbox.base import Mount
from tools_app.workspace_tools import client_tools

if TYPE_CHECKING:
    from sessions_app.harness.model_call import ModelAnswer
    from sessions_app.harness.shapes import Shape


@dataclass(kw_only=True)
class Spent:
    """What a run has used so far."""

    model_calls: int = 0
    #: Tool calls by id: a call that is retried, or waits before it runs, counts once.
    calls: set[UUID] = field(default_factory=set)
    input_tokens: int = 0
    output_tokens: int = 0
    #: The input tokens that the provider read from its cache, and wrote to it.
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: Decimal = Decimal(0)
    started: float = field(default_factory=time.monotonic)

    @property
    def tool_calls(self) -> int:
        return len(self.calls)

    def add(self, usage: Usage, cost: Decimal) -> None:
        self.model_calls += 1
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cache_read_tokens += usage.cache_read_tokens
        self.cache_write_tokens += usage.cache_write_tokens
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
            "cached_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "cost": str(self.cost),
        }


#: Fields of a turn that are ids or plain values in what was read.
IDS = ("environment_id", "about_id", "sender_id", "key_id")
PLAIN = ("purpose", "recovering", "awaited", "earlier_tool_calls")


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
    #: The name and description of each skill of the agent.
    skills: Sequence[tuple[str, str]] = ()
    #: All entries since the snapshot, if they were just read and not used yet.
    entries: Sequence[LogEntry] | None = None
    #: The charge of a model call that ended. It is written with the next commit of the run.
    unpaid: Charge | None = None
    #: The newest answer whose text viewers saw and that broke off. It is kept when the run ends.
    unfinished: ModelAnswer | None = None
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
    #: What stands beside the newest message and is not in the log yet.
    note: Note = field(default_factory=Note)
    #: Tokens that the provider took when its window proved smaller than the catalog says.
    ceiling: int | None = None
    #: Digests of (tool, arguments, result), newest last, to detect a stuck loop.
    traces: list[str] = field(default_factory=list)
    #: What the answer must fit, and the answers of this run that did not.
    shape: Shape | None = None

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
            skills=self.skills,
            basis=self.basis,
        )

    def reload_basis(self, *, new_message: bool = False) -> None:
        """Read the basis of the context again.

        With `new_message`, memories are looked up again too, because they depend on the message.
        """
        self.basis = load_basis(self.session_id, run_id=self.claim.run_id)
        self.entries = None
        if new_message:
            self.memories = None

    def note_events(self) -> list[NewEvent]:
        """Return the note as the event to write before the answer that it led to, if there is one."""
        return [self.note.event()] if self.note.text else []

    def note_is_stored(self) -> None:
        """Stop telling the note beside the newest message: the log holds it from now on."""
        self.note = Note()
        if self.memories:
            self.memories = self.memories.once_noted()

    @property
    def tools(self) -> dict[str, Tool]:
        return offered_tools(self.policy, builds=self.about_id is not None)

    @cached_property
    def deferred(self) -> dict[str, Tool]:
        """The tools that the model knows by a line and calls through another tool."""
        return split_tools(self.tools)[1]

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
                f"This run reached its limit of {self.limits.max_seconds:,} seconds.",
                stop_reason="time_limit",
            )

    def check_bounds(self) -> None:
        """Raise LimitReached if the run has reached one of its limits."""
        self.check_time()
        limits, spent = self.limits, self.spent
        tokens = spent.input_tokens + spent.output_tokens
        for name, used, bound, stop_reason in (
            ("model calls", spent.model_calls, limits.max_model_calls, "step_limit"),
            ("tool calls", self.tool_calls, limits.max_tool_calls, "tool_limit"),
            ("tokens", tokens, limits.max_tokens_total, "token_limit"),
        ):
            # With a bound of zero tool calls the model may still answer; its first call is refused.
            if used >= max(bound, 1):
                raise LimitReached(
                    f"This run reached its limit of {bound:,} {name}.", stop_reason=stop_reason
                )

    def policy_json(self) -> dict[str, Any]:
        return {
            name: {"decision": d.decision, "decided_by": d.decided_by}
            for name, d in self.policy.items()
        }


def load_turn(claim: Claim, owner: UUID, stop_signal: StopSignal) -> Turn:
    """Return the turn of a claimed run. Its version never changes; all else was read with the claim.

    A run that resumes after an answer belongs to the turn that waited, and so do the calls of that
    turn.
    """
    loaded = run_queue.load(claim)
    found = loaded.facts
    basis = read_basis(found["basis"])
    version = version_by_id(UUID(found["agent_version_id"]))
    if found["model"]:
        version.provider, version.model = found["provider"], found["model"]
    bound = read_binding(found["binding"])
    policy = bound.policy()
    if found["purpose"] == Run.Purpose.TURN and found["wishes"]:
        policy = _override(version, policy, RunOverrides.model_validate(found["wishes"]))
    outcome = found["outcome"]
    ids: dict[str, Any] = {name: UUID(found[name]) if found[name] else None for name in IDS}
    turn = Turn(
        claim=claim,
        owner=owner,
        stop_signal=stop_signal,
        workspace_id=UUID(found["workspace_id"]),
        agent_id=UUID(found["agent_id"]),
        ancestors=[UUID(ancestor) for ancestor in found["ancestors"]],
        compaction_options=found["wishes"],
        basis=basis,
        version=version,
        limits=_narrowed(limits_of(version), policy.max_tool_calls),
        policy=policy,
        skills=bound.skills,
        entries=_entries(claim.session_id, loaded, basis),
        outcome=Outcome.model_validate_json(outcome) if outcome else None,
        **ids,
        **{name: found[name] for name in PLAIN},
    )
    if turn.deferred:
        policy.add_unjudged(DISCLOSURE)
    policy.exposure = exposure_of(turn.session_id, turn, policy.peers("send"))
    if not found["saw_outside"] and any(one.ownership == "mcp" for one in turn.tools.values()):
        # The model reads the descriptions that the server wrote.
        mark_tainted(turn.session_id)
    return turn


def _override(
    version: AgentVersion, policy: EffectivePolicy, overrides: RunOverrides
) -> EffectivePolicy:
    """Apply a run's overrides to its own copy of the version, and return the policy they leave."""
    if overrides.provider or overrides.model:
        choice = override_model(version, overrides.provider or "", overrides.model or "")
        version.provider, version.model = choice.provider, choice.model
    if overrides.system_prompt is not None:
        kept = "" if overrides.system_prompt_mode == "replace" else version.system_prompt
        version.system_prompt = f"{kept}\n\n{overrides.system_prompt}".strip()
    if overrides.max_tokens is not None:
        version.max_tokens = overrides.max_tokens
    if overrides.temperature is not None:
        version.temperature = overrides.temperature
    if overrides.client_tools:
        policy = policy.extended(client_tools(overrides.client_tools))
    if overrides.response_schema is not None:
        version.response_schema = overrides.response_schema
    if overrides.effort is not None:
        version.effort = overrides.effort
    return policy if overrides.tools is None else policy.narrowed(overrides.tools)


def _entries(session_id: UUID, loaded: LoadedRun, basis: ContextBasis) -> Sequence[LogEntry] | None:
    """Return all entries since the snapshot, or None if only some of them were read."""
    newer = parse_entries(loaded.facts["entries"] or [], session_id)
    known = loaded.known if loaded.facts["since_known"] else None
    if known is None:
        known = KnownEntries(snapshot_id=basis.snapshot_id, last_seq=basis.snapshot_seq)
    return remember(session_id, known, newer)


def _narrowed(limits: Limits, max_tool_calls: int | None) -> Limits:
    """Return the agent's limits, with the policy's number of tool calls if that is smaller."""
    if max_tool_calls is None or max_tool_calls >= limits.max_tool_calls:
        return limits
    return limits.model_copy(update={"max_tool_calls": max_tool_calls})
