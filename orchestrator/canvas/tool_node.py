"""A tool that a canvas calls itself, under the agent's policy and recorded in the ledger.

The call runs in the session that the canvas has with its agent, so that both see the same files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db.models.functions import Now

from agents.models import Agent
from core.db import release_connection
from core.exceptions import Fault, StaleEpoch
from core.validation import storable_json
from orchestrator.canvas.plan import why_unfit
from orchestrator.engine.step_writer import encode_error
from orchestrator.engine.store import WorkflowClaim, row
from orchestrator.engine.waits import paying_key
from orchestrator.exceptions import CallUnknown, NonRetryableError
from orchestrator.models import Workflow
from sessions_app import ledger
from sessions_app.context.taint import exposure_of, is_tainted
from sessions_app.harness.crash_points import crash_point
from sessions_app.harness.execution import judge_call, open_sandbox
from sessions_app.models import Session, ToolExecution
from sessions_app.sandbox_billing import charge_command, check_affordable
from sessions_app.sessions import get_or_create_session
from tenants.exceptions import BudgetReached, OutOfCredits
from tools_app.exceptions import OutcomeUnknown, ToolFailed, ToolStopped
from tools_app.policy.effective import effective_policy
from tools_app.policy.evaluation import EffectivePolicy
from tools_app.registry import Category, Parked, Tool, ToolContext
from tools_app.sandbox.provisioning import LazySandbox

if TYPE_CHECKING:
    from orchestrator.engine.runner import Runner

State = ToolExecution.State
RETRIES, DELAY = 2, 2.0
#: Added to the tool's own timeout, so that the tool is the one to report that it was too slow.
GRACE_SECONDS = 30.0
FENCE = "SELECT (workflow_lock(%s, %s)).epoch"
#: How long a tool that was told to stop may take to report what it did.
LEAVE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class PlannedCall:
    """A call that the policy does not deny, with all that is needed to make it."""

    session: Session
    policy: EffectivePolicy
    tool: Tool
    #: The call as the ledger will hold it.
    row: ToolExecution


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a tool by the canvas of an agent."""

    runner: Runner
    agent: Agent
    tool: str
    input: Mapping[str, Any]

    def judge(self, call_id: str) -> dict[str, Any]:
        """Return what the policy decides about this call. A denial ends the node."""
        planned = self._plan(call_id)
        facts = {"decision": planned.row.decision, "decided_by": planned.row.decided_by}
        return {**facts, "title": planned.tool.title, "seconds": planned.tool.seconds}

    def make(self, call_id: str, attempt: int) -> Any:
        """Run the tool and return its answer, which is the node's output."""
        planned = self._plan(call_id)
        _check_affordable(planned)
        call = ledger.begin_workflow_call(
            planned.row, attempt=attempt, fence=self._fence, lost=CallUnknown().detail
        )
        if call.state != State.RUNNING:
            return outcome_of(call)
        release_connection()
        crash_point("inside_tool")

        def end(state: str, **outcome: Any) -> None:
            result = ledger.CallResult(call, state, **outcome)
            ledger.end_workflow_call(result, also=lambda: self._charge(call, planned))

        try:
            answer = self._run(planned)
        except StaleEpoch:
            raise  # the next holder finds the call as it was left
        except OutcomeUnknown as fault:
            end(State.UNKNOWN, error=fault.detail)
            raise CallUnknown(f"It is unknown whether it took effect: {fault.detail}") from fault
        except ToolStopped as fault:
            end(State.CANCELLED, error=fault.detail)
            raise NonRetryableError(fault.detail) from fault
        except Exception as error:
            end(State.ERROR, error=encode_error(error)["message"])
            raise
        end(State.COMPLETED, output=answer)
        return answer

    def _plan(self, call_id: str) -> PlannedCall:
        """Evaluate the policy, also right before the call: it may change while a person is asked."""
        session, claim = self._session(), self.runner.claim
        policy = effective_policy(session.agent_version, session.pk)
        policy.exposure = exposure_of(session.pk, session, policy.peers("send"))
        tool = policy.tools.get(self.tool)
        if tool is None:
            raise NonRetryableError(f"There is no tool named {self.tool!r}.")
        if why := why_unfit(tool):
            raise NonRetryableError(why)
        call = ledger.new_call(
            tool.name,
            storable_json(dict(self.input)),
            tool,
            policy.decide_call(self.tool, self.input),
            tool_use_id=call_id,  # the same for every attempt at the call
            workspace_id=claim.workspace_id,
            session=session,
            workflow_id=claim.id,
            created_by_id=claim.created_by_id,
        )
        if call.decision == "deny":
            error = f"Not allowed: {call.decided_by}."
            ledger.refuse_workflow_call(call, State.DENIED, error)
            raise NonRetryableError(error)
        return PlannedCall(session=session, policy=policy, tool=tool, row=call)

    def _session(self) -> Session:
        """Return the session in which the agent's own nodes talk."""
        claim = self.runner.claim
        made, _ = get_or_create_session(
            agent=self.agent,
            session_key=f"workflow:{claim.id}:{claim.generation}",
            title=f"{claim.name}: {self.agent}"[:200],
            created_by_id=claim.created_by_id,
            metadata={"workflow_id": str(claim.id)},
        )
        return made

    def _run(self, planned: PlannedCall) -> Any:
        tool = planned.tool
        try:
            answer = tool.call(dict(self.input), self._context(planned))
        except (StaleEpoch, OutcomeUnknown, ToolStopped):
            raise
        except Fault as fault:
            if isinstance(fault, ToolFailed) and planned.row.is_repeatable:
                raise  # it may be retried
            raise NonRetryableError(fault.detail) from fault
        if isinstance(answer, Parked):
            raise NonRetryableError(
                f"{self.tool} continues elsewhere, which a canvas cannot follow."
            )
        return answer

    def _context(self, planned: PlannedCall) -> ToolContext:
        claim, session = self.runner.claim, planned.session
        return ToolContext(
            workspace_id=claim.workspace_id,
            session_id=session.pk,
            agent_id=self.agent.pk,
            user_id=claim.created_by_id,
            run_id=claim.id,
            call_id=planned.row.tool_use_id,
            sandbox=LazySandbox(
                lambda: open_sandbox(session.workspace_id, session.pk, session.environment_id),
                workspace_id=session.workspace_id,
            ),
            judge=partial(judge_call, planned.policy, self.tool),
            peers=planned.policy.peers,
            is_tainted=lambda: is_tainted(session.pk),
            fence=self._fence,
            stopped=self.runner.sign.event,
            deadline=time.monotonic() + planned.tool.seconds,
        )

    def _fence(self) -> None:
        fence(self.runner.claim)

    def _charge(self, call: ToolExecution, planned: PlannedCall) -> None:
        """Charge the time of a command."""
        if planned.tool.category == Category.EXEC:
            claim = self.runner.claim
            starters = [id for id in (claim.created_by_id, paying_key(claim)) if id]
            charge_command(call, planned.session, starters, claim.created_by_id)


def fence(claim: WorkflowClaim) -> None:
    """Lock the workflow until the commit. Raise StaleEpoch when this worker has lost it."""
    row(FENCE, [claim.id, claim.epoch])


def _check_affordable(planned: PlannedCall) -> None:
    if planned.tool.category != Category.EXEC:
        return
    try:
        check_affordable(planned.session.pk)
    except (BudgetReached, OutOfCredits) as fault:
        ledger.refuse_workflow_call(planned.row, State.ERROR, f"Not run: {fault.detail}")
        raise NonRetryableError(fault.detail) from fault


def outcome_of(call: ToolExecution) -> Any:
    """Return or raise the outcome of a call that must not be made again."""
    if call.state == State.COMPLETED:
        return call.output
    if call.state == State.UNKNOWN:
        raise CallUnknown(call.error)
    raise NonRetryableError(call.error)


def close_lost_calls() -> int:
    """End the calls of workflows that are over, if no worker reports how they ended."""
    over = Workflow.objects.filter(finished_at__lt=Now() - timedelta(seconds=LEAVE_SECONDS))
    return ledger.close_workflow_calls(over.values("pk"), CallUnknown().detail)
