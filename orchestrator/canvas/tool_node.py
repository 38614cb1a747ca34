"""A tool that a canvas calls itself, under the agent's policy and recorded in the ledger.

The call runs in the session that the canvas has with its agent, so that both see the same files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from django.db import transaction
from django.utils import timezone

from agents.environments import environment_or_default
from agents.models import Agent
from core.db import release_connection
from core.exceptions import Fault, StaleEpoch
from core.validation import storable, storable_json
from orchestrator.canvas.plan import why_unfit
from orchestrator.engine.step_writer import encode_error
from orchestrator.engine.store import WorkflowClaim, row, rows
from orchestrator.engine.waits import paying_key
from orchestrator.exceptions import CallUnknown, NonRetryableError
from sessions_app.context.taint import is_tainted
from sessions_app.harness.crash_points import crash_point
from sessions_app.log.sql import retry_on_disconnect
from sessions_app.models import Session, ToolExecution
from sessions_app.sandbox_billing import charge_command, check_affordable
from sessions_app.sessions import get_or_create_session
from tenants.exceptions import BudgetReached, OutOfCredits
from tools_app.exceptions import OutcomeUnknown, ToolFailed, ToolStopped
from tools_app.files import SessionFolder
from tools_app.policy.effective import effective_policy
from tools_app.policy.evaluation import Decision, EffectivePolicy
from tools_app.registry import Category, Parked, Tool, ToolContext
from tools_app.sandbox.base import Sandbox
from tools_app.sandbox.provisioning import LazySandbox, provision

if TYPE_CHECKING:
    from orchestrator.engine.runner import Runner


State = ToolExecution.State
RETRIES, DELAY = 2, 2.0
#: Added to the tool's own timeout, so that the tool is the one to report that it was too slow.
GRACE_SECONDS = 30.0
FENCE = "SELECT (workflow_lock(%s, %s)).epoch"
#: Calls of a workflow that is over, whose worker never reported how they ended.
LEFT_OPEN = """
UPDATE tool_executions t SET state = 'unknown', error = %s, finished_at = clock_timestamp()
  FROM workflows w WHERE w.id = t.workflow_id AND t.state = 'running'
   AND w.finished_at < clock_timestamp() - make_interval(secs => %s) RETURNING t.id
"""
#: How long a tool that was told to stop may take to report what it did.
LEAVE_SECONDS = 60.0


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
        decided, tool = planned.decided, planned.tool
        facts = {"decision": decided.decision, "decided_by": decided.decided_by}
        return {**facts, "title": tool.title, "seconds": tool.seconds}

    def make(self, call_id: str, attempt: int) -> Any:
        """Run the tool and return its answer, which is the node's output."""
        planned = self._plan(call_id)
        _check_affordable(planned)
        session, tool = planned.session, planned.tool
        call = begin_call(planned, attempt)
        if call.state != State.RUNNING:
            return outcome_of(call)
        release_connection()
        crash_point("inside_tool")
        end = partial(end_call, call, also=partial(self._charge, call, session, tool))
        try:
            answer = self._run(tool, self._context(planned))
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

    def _charge(self, call: ToolExecution, session: Session, tool: Tool) -> None:
        """Charge the time of a command."""
        if tool.category == Category.EXEC:
            claim = self.runner.claim
            starters = [id for id in (claim.created_by_id, paying_key(claim)) if id]
            charge_command(call, session, starters)

    def _run(self, tool: Tool, context: ToolContext) -> Any:
        try:
            answer = tool.call(dict(self.input), context)
        except (StaleEpoch, OutcomeUnknown, ToolStopped):
            raise
        except Fault as fault:
            if isinstance(fault, ToolFailed) and (tool.read_only or tool.idempotent):
                raise  # it may be retried
            raise NonRetryableError(fault.detail) from fault
        if isinstance(answer, Parked):
            raise NonRetryableError(
                f"{self.tool} continues elsewhere, which a canvas cannot follow."
            )
        return answer

    def _plan(self, call_id: str) -> PlannedCall:
        """Evaluate the policy, also right before the call: it may change while a person is asked."""
        session = self._session()
        policy = effective_policy(session.agent_version, session.pk)
        tool = policy.tools.get(self.tool)
        if tool is None:
            raise NonRetryableError(f"There is no tool named {self.tool!r}.")
        if why := why_unfit(tool):
            raise NonRetryableError(why)
        planned = PlannedCall(
            claim=self.runner.claim,
            session=session,
            call_id=call_id,
            tool=tool,
            input=self.input,
            policy=policy,
            decided=policy.decide_call(self.tool, self.input),
        )
        if planned.decided.decision == "deny":
            error = f"Not allowed: {planned.decided.decided_by}."
            refuse_call(planned, State.DENIED, error)
            raise NonRetryableError(error)
        return planned

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

    def _context(self, planned: PlannedCall) -> ToolContext:
        claim, session = planned.claim, planned.session
        return ToolContext(
            workspace_id=claim.workspace_id,
            session_id=session.pk,
            agent_id=self.agent.pk,
            user_id=claim.created_by_id,
            run_id=claim.id,
            call_id=planned.call_id,
            sandbox=LazySandbox(lambda: _provision(session)),
            judge=lambda input: planned.policy.decide_call(self.tool, input).decision,
            is_tainted=lambda: is_tainted(session.pk),
            fence=lambda: fence(claim),
            stopped=self.runner.sign.event,
            deadline=time.monotonic() + planned.tool.seconds,
        )


def _check_affordable(planned: PlannedCall) -> None:
    if planned.tool.category != Category.EXEC:
        return
    try:
        check_affordable(planned.session.pk)
    except (BudgetReached, OutOfCredits) as fault:
        refuse_call(planned, State.ERROR, f"Not run: {fault.detail}")
        raise NonRetryableError(fault.detail) from fault


def _provision(session: Session) -> Sandbox:
    """Return the session's sandbox, if it can be paid for."""
    check_affordable(session.pk)
    environment = environment_or_default(session.workspace_id, session.environment_id)
    folder = SessionFolder(workspace_id=session.workspace_id, session_id=session.pk)
    return provision(environment, folder, ())


@dataclass(frozen=True, kw_only=True)
class PlannedCall:
    """A call that the policy allows, with all that is needed to make it."""

    claim: WorkflowClaim
    session: Session
    #: The same for every attempt at the call.
    call_id: str
    tool: Tool
    input: Mapping[str, Any]
    policy: EffectivePolicy
    decided: Decision

    def row(self) -> ToolExecution:
        return ToolExecution(
            workspace_id=self.claim.workspace_id,
            created_by_id=self.claim.created_by_id,
            session=self.session,
            workflow_id=self.claim.id,
            tool_use_id=self.call_id,
            name=self.tool.name[:160],
            input=storable_json(dict(self.input)),
            ownership=self.tool.ownership,
            decision=self.decided.decision,
            decided_by=self.decided.decided_by[:200],
            read_only=self.tool.read_only,
            idempotent=self.tool.idempotent,
        )


def begin_call(planned: PlannedCall, attempt: int) -> ToolExecution:
    """Return the call's ledger row: `running` when it is to be made now, else as it ended before."""
    with transaction.atomic():
        fence(planned.claim)
        rows_ = ToolExecution.objects.filter(session=planned.session, tool_use_id=planned.call_id)
        known = rows_.first()
        call = known or planned.row()
        is_open = known is None or known.state == State.RUNNING
        if attempt > 1 and not (call.read_only or call.idempotent):
            if is_open:
                call.state, call.error = State.UNKNOWN, CallUnknown().detail
                call.finished_at = timezone.now()
        elif call.state != State.COMPLETED:
            call.state, call.error, call.output = State.RUNNING, "", None
            call.started_at, call.finished_at = timezone.now(), None
            call.attempts = attempt
        call.save()
    return call


def refuse_call(planned: PlannedCall, state: str, error: str) -> None:
    """Record a call that is not made, and why."""
    call = planned.row()
    call.state, call.error, call.finished_at = state, error, timezone.now()
    ToolExecution.objects.bulk_create([call], ignore_conflicts=True)


def outcome_of(call: ToolExecution) -> Any:
    """Return or raise the outcome of a call that must not be made again."""
    if call.state == State.COMPLETED:
        return call.output
    if call.state == State.UNKNOWN:
        raise CallUnknown(call.error)
    raise NonRetryableError(call.error)


def end_call(
    call: ToolExecution,
    state: str,
    *,
    also: Callable[[], None],
    output: Any = None,
    error: str = "",
) -> None:
    """Record how this attempt ended, even if another worker holds the workflow by now.

    What `also` writes is one commit with it.
    """
    begun = ToolExecution.objects.filter(pk=call.pk, state=State.RUNNING, attempts=call.attempts)
    outcome = {"state": state, "output": _as_json(output), "error": storable(error)}

    def write(_: bool) -> None:
        with transaction.atomic():
            if begun.update(**outcome, finished_at=timezone.now()):
                also()

    retry_on_disconnect(write)


def _as_json(output: Any) -> Any:
    """Return the output as JSON, or None: the step reports an output that is not JSON."""
    try:
        return storable_json(orjson.loads(orjson.dumps(output)))
    except TypeError:
        return None


def close_lost_calls() -> int:
    """End the calls that no worker will report on. The supervisor does it."""
    return len(rows(LEFT_OPEN, [CallUnknown().detail, LEAVE_SECONDS]))


def fence(claim: WorkflowClaim) -> None:
    """Lock the workflow until the commit. Raise StaleEpoch when this worker has lost it."""
    row(FENCE, [claim.id, claim.epoch])
