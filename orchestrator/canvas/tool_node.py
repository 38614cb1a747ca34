"""A tool that a canvas calls itself: under the agent's policy, asked about when that says so.

The call runs in the session that the canvas has with its agent, so that both see the same files;
the ledger knows of it as of any other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agents.environments import environment_or_default
from agents.models import Agent
from config.faults import (
    BudgetReached,
    CallUnknown,
    Fault,
    NonRetryableError,
    OutcomeUnknown,
    OutOfCredits,
    StaleEpoch,
    ToolFailed,
    ToolStopped,
)
from orchestrator.canvas import ledger
from orchestrator.canvas.ledger import Planned
from orchestrator.canvas.plan import why_unfit
from orchestrator.engine.links import key_of
from orchestrator.engine.results import describe
from sessions_app.models import Session, ToolExecution
from sessions_app.points import reached
from sessions_app.sandbox_minutes import charge_command
from sessions_app.sandbox_purses import check_affordable
from sessions_app.sessions import get_or_create_session
from tenants.off_loop import let_go
from tools_app.context import Parked, ToolContext
from tools_app.registry import Category, Tool
from tools_app.sandbox import LazySandbox, Sandbox, SessionFolder, provision
from tools_app.selection import effective_policy

if TYPE_CHECKING:
    from orchestrator.engine.runner import Runner

RETRIES, DELAY = 2, 2.0
#: Beyond the tool's own time, so that the tool is the one to say that it was too slow.
GRACE_SECONDS = 30.0
State = ToolExecution.State


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a tool, by the canvas of an agent."""

    runner: Runner
    agent: Agent
    tool: str
    input: Mapping[str, Any]

    def judge(self, call_id: str) -> dict[str, Any]:
        """What the policy says of this very call. A refusal is the end of the node."""
        planned = self._plan(call_id)
        decided, tool = planned.decided, planned.tool
        facts = {"decision": decided.decision, "decided_by": decided.decided_by}
        return {**facts, "title": tool.title, "seconds": tool.seconds}

    def make(self, call_id: str, attempt: int) -> Any:
        """Run the tool. What it answers is the node's output."""
        planned = self._plan(call_id)
        _check_affordable(planned)
        session, tool = planned.session, planned.tool
        call = ledger.begin(planned, attempt)
        if call.state != State.RUNNING:
            return ledger.outcome_of(call)
        let_go()
        reached("inside_tool")
        end = partial(ledger.end, call, also=partial(self._charge, call, session, tool))
        try:
            answer = self._run(tool, self._context(planned))
        except StaleEpoch:
            raise  # the next holder finds the call as it was left
        except OutcomeUnknown as fault:
            end(State.UNKNOWN, error=fault.detail)
            raise CallUnknown(f"Nobody knows whether it happened: {fault.detail}") from fault
        except ToolStopped as fault:
            end(State.CANCELLED, error=fault.detail)
            raise NonRetryableError(fault.detail) from fault
        except Exception as error:
            end(State.ERROR, error=describe(error)["message"])
            raise
        end(State.COMPLETED, output=answer)
        return answer

    def _charge(self, call: ToolExecution, session: Session, tool: Tool) -> None:
        """A command costs its time, wherever it was asked for."""
        if tool.category == Category.EXEC:
            held = self.runner.claimed
            starters = [one for one in (held.created_by_id, key_of(held)) if one]
            charge_command(call, session, starters)

    def _run(self, tool: Tool, context: ToolContext) -> Any:
        try:
            answer = tool.call(dict(self.input), context)
        except (StaleEpoch, OutcomeUnknown, ToolStopped):
            raise
        except Fault as fault:
            if isinstance(fault, ToolFailed) and (tool.read_only or tool.idempotent):
                raise  # it may be tried again
            raise NonRetryableError(fault.detail) from fault
        if isinstance(answer, Parked):
            raise NonRetryableError(f"{self.tool} goes on elsewhere, which a canvas cannot follow.")
        return answer

    def _plan(self, call_id: str) -> Planned:
        """Again before the call: the policy may have been changed while a person was asked."""
        session = self._session()
        policy = effective_policy(session.agent_version, session.pk)
        tool = policy.tools.get(self.tool)
        if tool is None:
            raise NonRetryableError(f"No tool is named {self.tool!r}.")
        if why := why_unfit(tool):
            raise NonRetryableError(why)
        planned = Planned(
            held=self.runner.claimed,
            session=session,
            call_id=call_id,
            tool=tool,
            input=self.input,
            policy=policy,
            decided=policy.decide_call(self.tool, self.input),
        )
        if planned.decided.decision == "deny":
            error = f"Not allowed: {planned.decided.decided_by}."
            ledger.refuse(planned, State.DENIED, error)
            raise NonRetryableError(error)
        return planned

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

    def _context(self, planned: Planned) -> ToolContext:
        held, session = planned.held, planned.session
        return ToolContext(
            workspace_id=held.workspace_id,
            session_id=session.pk,
            agent_id=self.agent.pk,
            user_id=held.created_by_id,
            run_id=held.id,
            call_id=planned.call_id,
            sandbox=LazySandbox(lambda: _provision(session)),
            judge=lambda input: planned.policy.decide_call(self.tool, input).decision,
            fence=lambda: ledger.fence(held),
            stopped=self.runner.sign.event,
            deadline=time.monotonic() + planned.tool.seconds,
        )


def _check_affordable(planned: Planned) -> None:
    if planned.tool.category != Category.EXEC:
        return
    try:
        check_affordable(planned.session.pk)
    except (BudgetReached, OutOfCredits) as fault:
        ledger.refuse(planned, State.ERROR, f"Not run: {fault.detail}")
        raise NonRetryableError(fault.detail) from fault


def _provision(session: Session) -> Sandbox:
    """The session's sandbox, if it can be paid."""
    check_affordable(session.pk)
    environment = environment_or_default(session.workspace_id, session.environment_id)
    folder = SessionFolder(workspace_id=session.workspace_id, session_id=session.pk)
    return provision(environment, folder, ())
