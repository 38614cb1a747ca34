"""One run in the hands of a worker: what it is for, and what it may use."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from agents.definitions import version_by_id
from agents.limits import Limits, limits_of
from agents.models import AgentVersion
from config.faults import LimitReached
from sessions_app.context.ground import Ground, load_ground
from sessions_app.context.memories import Memories
from sessions_app.context.subject import Subject, offered_tools
from sessions_app.lanes import Claim
from sessions_app.outcomes.stated import Outcome
from sessions_app.spent import Spent
from sessions_app.statements import row
from sessions_app.stopping import StopSign
from tools_app.effective import EffectivePolicy
from tools_app.registry import Tool
from tools_app.sandbox.base import Mount
from tools_app.selection import effective_policy

LOAD = """
SELECT s.workspace_id, s.agent_id, s.agent_version_id, s.environment_id, s.about_id, q.attempts,
       q.resumes, q.purpose, q.wishes, r.created_by_id, r.key_id, s.outcome,
       CASE WHEN s.parent_id IS NULL THEN '{}' ELSE (
         WITH RECURSIVE above (id, up) AS (
           SELECT p.id, p.parent_id FROM agent_sessions p WHERE p.id = s.parent_id
           UNION SELECT p.id, p.parent_id FROM agent_sessions p JOIN above a ON p.id = a.up)
         SELECT array_agg(id) FROM above) END,
       EXISTS (SELECT 1 FROM subagent_spawns w WHERE w.child_session_id = s.id AND w.status = 'running'),
       CASE WHEN q.resumes THEN (
         SELECT count(*) FROM tool_executions t
          WHERE t.session_id = s.id AND t.finished_at IS NOT NULL AND t.decision <> 'deny'
            AND t.workflow_id IS NULL AND t.created_at >= r.started_at) ELSE 0 END
  FROM agent_sessions s JOIN agent_run_queue q ON q.id = %s
  JOIN agent_run_queue r ON r.id = coalesce(turn_root(q.id), q.id) WHERE s.id = %s
"""


@dataclass(kw_only=True)
class Turn:
    """Everything that the steps of a run share."""

    claim: Claim
    owner: UUID
    sign: StopSign
    workspace_id: UUID
    agent_id: UUID
    environment_id: UUID | None
    recovering: bool
    purpose: str
    #: How to compact, when that is the purpose.
    wishes: dict[str, Any]
    ground: Ground
    version: AgentVersion
    limits: Limits
    policy: EffectivePolicy
    #: Who sent the message that this turn answers, and with which key: they pay.
    sender_id: UUID | None = None
    key_id: UUID | None = None
    #: The agent that a builder builds here.
    about_id: UUID | None = None
    #: What the session is to reach, judged at the end of the run.
    outcome: Outcome | None = None
    #: The sessions above this one.
    ancestors: tuple[UUID, ...] = ()
    #: Whether another session waits for what this one answers.
    awaited: bool = False
    #: Made in this turn by runs that parked before this one.
    earlier_tool_calls: int = 0
    spent: Spent = field(default_factory=Spent)
    #: What its sandbox and file tools see beside the session's own files; see `mounting.py`.
    mounts: tuple[Mount, ...] = ()
    #: Words that were mounted into its sandbox and are shown to nobody.
    secrets: tuple[str, ...] = ()
    #: Resources that this turn has prepared, or tried to.
    prepared: dict[UUID, Path] = field(default_factory=dict)
    #: Looked up once, for the newest message.
    memories: Memories | None = None
    #: Tokens that the provider was found to take, when it took less than its window.
    ceiling: int | None = None
    #: Digests of (tool, arguments, result) of this run, newest last.
    traces: list[str] = field(default_factory=list)

    @property
    def session_id(self) -> UUID:
        return self.claim.session_id

    @property
    def user_id(self) -> UUID | None:
        """Whose message is answered."""
        return self.ground.speaker_id

    @property
    def subject(self) -> Subject:
        return Subject(
            workspace_id=self.workspace_id,
            agent_id=self.agent_id,
            session_id=self.session_id,
            version=self.version,
            tools=self.tools,
            ground=self.ground,
        )

    def listen(self, *, anew: bool = True) -> None:
        """Look again at what the run stands on. Anew, when somebody said more meanwhile."""
        self.ground = load_ground(self.session_id, run_id=self.claim.run_id)
        if anew:
            self.memories = None

    @property
    def tools(self) -> dict[str, Tool]:
        return offered_tools(self.policy, builds=self.about_id is not None)

    @property
    def tool_calls(self) -> int:
        """All calls of the turn so far."""
        return self.earlier_tool_calls + self.spent.tool_calls

    @property
    def seconds_left(self) -> float:
        return self.limits.max_seconds - (time.monotonic() - self.spent.started)

    def check_time(self) -> None:
        """Raise if the run was told to stop, or has taken as long as it may."""
        self.sign.check()
        if self.seconds_left <= 0:
            raise LimitReached(
                f"This run reached its limit of {self.limits.max_seconds:,} seconds."
            )

    def check_bounds(self) -> None:
        """Raise the limit that this run has reached, if any."""
        self.check_time()
        limits, spent = self.limits, self.spent
        tokens = spent.input_tokens + spent.output_tokens
        for name, used, bound in (
            ("model calls", spent.model_calls, limits.max_model_calls),
            ("tool calls", self.tool_calls, limits.max_tool_calls),
            ("tokens", tokens, limits.max_tokens_total),
        ):
            # A bound of no tool calls lets the model answer; the first call then meets it.
            if used >= max(bound, 1):
                raise LimitReached(f"This run reached its limit of {bound:,} {name}.")

    def policy_json(self) -> dict[str, Any]:
        return {
            name: {"decision": d.decision, "decided_by": d.decided_by}
            for name, d in self.policy.items()
        }


def load_turn(claim: Claim, owner: UUID, sign: StopSign) -> Turn:
    """Read what a claimed run needs: one row, its policy, and a version that never changes.

    A run that goes on after an answer belongs to the turn that waited for it, and so do the calls
    which that turn has made.
    """
    (
        workspace_id,
        agent_id,
        version_id,
        environment_id,
        about_id,
        attempts,
        resumes,
        purpose,
        wishes,
        sender_id,
        key_id,
        outcome,
        ancestors,
        awaited,
        made,
    ) = row(LOAD, [claim.run_id, claim.session_id])
    version = version_by_id(version_id)
    policy = effective_policy(version, claim.session_id)
    return Turn(
        claim=claim,
        owner=owner,
        sign=sign,
        workspace_id=workspace_id,
        agent_id=agent_id,
        about_id=about_id,
        environment_id=environment_id,
        recovering=attempts > 1 or resumes,
        purpose=purpose,
        wishes=orjson.loads(wishes),
        ground=load_ground(claim.session_id, run_id=claim.run_id),
        version=version,
        limits=_narrowed(limits_of(version), policy.max_tool_calls),
        policy=policy,
        sender_id=sender_id,
        key_id=key_id,
        outcome=Outcome.model_validate_json(outcome) if outcome else None,
        ancestors=tuple(ancestors),
        awaited=awaited,
        earlier_tool_calls=made,
    )


def _narrowed(limits: Limits, max_tool_calls: int | None) -> Limits:
    """The agent's limits, with the smaller of its own and the policies' number of tool calls."""
    if max_tool_calls is None or max_tool_calls >= limits.max_tool_calls:
        return limits
    return limits.model_copy(update={"max_tool_calls": max_tool_calls})
