"""A tool that a canvas calls itself: under the agent's policy, asked about when that says so.

The call runs in the session that the canvas has with its agent, so that both see the same files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.environments import environment_or_default
from agents.models import Agent
from config.faults import Fault, NonRetryableError, OutcomeUnknown, StaleEpoch, ToolFailed
from orchestrator.canvas.plan import why_unfit
from sessions_app.models import Session
from sessions_app.sessions import get_or_create_session
from sessions_app.statements import row
from tenants.off_loop import let_go
from tools_app.context import Parked, ToolContext
from tools_app.effective import EffectivePolicy
from tools_app.policy import Decision
from tools_app.registry import Tool
from tools_app.sandbox import LazySandbox, SessionFolder, provision
from tools_app.selection import effective_policy

if TYPE_CHECKING:
    from orchestrator.engine.runner import Runner

RETRIES, DELAY = 2, 2.0
#: Beyond the tool's own time, so that the tool is the one to say that it was too slow.
GRACE_SECONDS = 30.0
FENCE = "SELECT (workflow_lock(%s, %s)).epoch"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a tool, by the canvas of an agent."""

    runner: Runner
    agent: Agent
    tool: str
    input: Mapping[str, Any]

    def judge(self) -> dict[str, Any]:
        """What the policy says of this very call. A refusal is the end of the node."""
        _, decided, tool = self._decide()
        facts = {"decision": decided.decision, "decided_by": decided.decided_by}
        manner = {"repeatable": tool.read_only or tool.idempotent, "seconds": tool.seconds}
        return {**facts, "title": tool.title, **manner}

    def make(self, call_id: str) -> Any:
        """Run the tool. What it answers is the node's output."""
        policy, _, tool = self._decide()
        session = self._session()
        context = self._context(session, policy, tool, call_id)
        let_go()
        try:
            answer = tool.call(dict(self.input), context)
        except StaleEpoch:
            raise
        except OutcomeUnknown as fault:
            raise NonRetryableError(f"Nobody knows whether it happened: {fault.detail}") from fault
        except ToolFailed:
            raise
        except Fault as fault:
            raise NonRetryableError(fault.detail) from fault
        if isinstance(answer, Parked):
            raise NonRetryableError(f"{self.tool} goes on elsewhere, which a canvas cannot follow.")
        return answer

    def _decide(self) -> tuple[EffectivePolicy, Decision, Tool]:
        """Again before the call: the policy may have been changed while a person was asked."""
        session = self._session()
        policy = effective_policy(session.agent_version, session.pk)
        tool = policy.tools.get(self.tool)
        if tool is None:
            raise NonRetryableError(f"No tool is named {self.tool!r}.")
        if why := why_unfit(tool):
            raise NonRetryableError(why)
        decided = policy.decide_call(self.tool, self.input)
        if decided.decision == "deny":
            raise NonRetryableError(f"Not allowed: {decided.decided_by}.")
        return policy, decided, tool

    def _session(self) -> Session:
        """The one in which the agent's own nodes talk."""
        held = self.runner.claimed
        made, _ = get_or_create_session(
            agent=self.agent,
            session_key=f"workflow:{held.id}:{held.generation}",
            title=f"{held.name}: {self.agent}"[:200],
            created_by_id=held.created_by_id,
            metadata={"workflow_id": str(held.id)},
        )
        return made

    def _context(
        self, session: Session, policy: EffectivePolicy, tool: Tool, call_id: str
    ) -> ToolContext:
        held = self.runner.claimed
        folder = SessionFolder(workspace_id=held.workspace_id, session_id=session.pk)
        environment = environment_or_default(held.workspace_id, session.environment_id)
        return ToolContext(
            workspace_id=held.workspace_id,
            session_id=session.pk,
            agent_id=self.agent.pk,
            user_id=held.created_by_id,
            run_id=held.id,
            call_id=call_id,
            sandbox=LazySandbox(lambda: provision(environment, folder, ())),
            judge=lambda input: policy.decide_call(self.tool, input).decision,
            fence=lambda: _fence(self.runner),
            stopped=self.runner.sign.event,
            deadline=time.monotonic() + tool.seconds,
        )


def _fence(runner: Runner) -> None:
    """Hold the workflow until the commit. What a lost worker would still write is refused."""
    row(FENCE, [runner.claimed.id, runner.claimed.epoch])
