"""Runs the calls of one step: together when all only read, else one after the other.

Each call runs on a thread of its own, so that a tool which does not stop cannot hold its lane.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from hashlib import sha256
from typing import Any

import orjson
import structlog
from pydantic import BaseModel

from config.faults import (
    BudgetReached,
    Fault,
    LimitReached,
    OutcomeUnknown,
    OutOfCredits,
    ToolFailed,
    ToolStopped,
)
from sessions_app import ledger, mounting
from sessions_app.ledger import Outcome
from sessions_app.models import ToolExecution
from sessions_app.outputs import pump, speaking
from sessions_app.points import reached
from sessions_app.sandbox_minutes import charge_commands
from sessions_app.sandbox_purses import check_affordable
from sessions_app.saying import hide
from sessions_app.toolbox import tool_context
from sessions_app.turn import Turn
from tenants.off_loop import let_go
from tools_app.context import Parked
from tools_app.registry import Category, Tool

log = structlog.get_logger(__name__)

State = ToolExecution.State
GRACE_SECONDS = 2.0  #: Between being told to stop and being given up.
SAME_AGAIN = 4  #: The same call with the same result, this often in a row, is a stuck loop.


class Job:
    """One call on its thread."""

    def __init__(self, turn: Turn, execution: ToolExecution, tool: Tool) -> None:
        self.execution, self.tool = execution, tool
        self.stopped = threading.Event()
        self.done = threading.Event()
        #: It is done, or should be.
        self._over = threading.Event()
        self.outcome = self._unfinished()
        self._turn = turn
        self._seconds = max(1.0, min(tool.seconds, turn.seconds_left))
        threading.Thread(target=self._work, name=f"tool {tool.name}", daemon=True).start()

    def _unfinished(self) -> Outcome:
        harmless = self.execution.read_only or self.execution.idempotent
        return Outcome(
            execution=self.execution,
            state=State.ERROR if harmless else State.UNKNOWN,
            error="The tool did not stop in time.",
        )

    def _work(self) -> None:
        try:
            self.outcome = self._call()
        finally:
            let_go()
            self.done.set()
            self._over.set()

    def _call(self) -> Outcome:
        call = self.execution
        try:
            arguments = self.tool.parse(call.input)
            output = self._handle(arguments)
        except ToolStopped:
            return Outcome(execution=call, state=State.CANCELLED, error="Stopped before it ended.")
        except Fault as fault:
            state = State.UNKNOWN if isinstance(fault, OutcomeUnknown) else State.ERROR
            error = hide(fault.detail, self._turn.secrets)
            return Outcome(execution=call, state=state, error=error)
        except Exception:
            log.exception("tool_crashed", tool=call.name)
            error = f"The tool {call.name} failed inside. It is a fault of the product, not of the call."
            return Outcome(execution=call, state=State.ERROR, error=error)
        if self._turn.secrets and isinstance(output, str):
            output = hide(output, self._turn.secrets)
        return Outcome(execution=call, state=State.COMPLETED, output=output)

    def _handle(self, arguments: BaseModel) -> Any:
        turn, deadline = self._turn, time.monotonic() + self._seconds
        with speaking(turn.claim, self.execution, turn.secrets) as output:
            context = tool_context(
                turn,
                self.execution,
                stopped=self.stopped,
                deadline=deadline,
                emit=partial(pump().take, output),
            )
            return self.tool.handler(arguments, context)

    def wait(self) -> Outcome:
        """The outcome, at the latest a little after the time limit or the stop sign."""
        with self._turn.sign.calls(self._stop):
            if not self._over.wait(self._seconds):
                self._stop()
            if self.stopped.is_set():
                self.done.wait(GRACE_SECONDS)
        return self.outcome

    def _stop(self) -> None:
        self.stopped.set()
        self._over.set()


def execute(turn: Turn, executions: list[ToolExecution]) -> None:
    """Run every call that may run, and record what became of it."""
    refused = [o for e in executions if (o := _refusal(turn, e))]
    if refused:
        ledger.record(turn, refused)
    closed = {o.execution.pk for o in refused}
    ready = [e for e in executions if e.state == State.REQUESTED and e.pk not in closed]
    outgoing = [e for e in ready if e.ownership == "custom"]
    _send_out(turn, outgoing)
    ready = [e for e in ready if e not in outgoing]
    if all(e.read_only for e in ready):
        _execute_together(turn, ready)
    else:
        for execution in ready:
            _execute_together(turn, [execution])
    _check_stuck(turn)


def _refusal(turn: Turn, execution: ToolExecution) -> Outcome | None:
    """Why a call does not run at all, if so."""
    if execution.name not in turn.policy.tools:
        error = f"There is no tool named {execution.name!r}."
        return Outcome(execution=execution, state=State.ERROR, error=error)
    # Again, for a call that waited: its arguments or the policy may have been changed since.
    decided = turn.policy.decide_call(execution.name, execution.input)
    if decided.decision == "deny":
        error = f"Not allowed: {decided.decided_by}."
        return Outcome(execution=execution, state=State.DENIED, error=error)
    if execution.pk not in turn.spent.calls:
        turn.spent.calls.add(execution.pk)
        if turn.tool_calls > turn.limits.max_tool_calls:
            error = f"Not run: the limit of {turn.limits.max_tool_calls} tool calls is reached."
            return Outcome(execution=execution, state=State.CANCELLED, error=error)
    return _unaffordable(turn, execution)


def _unaffordable(turn: Turn, execution: ToolExecution) -> Outcome | None:
    """A command costs its time. The run itself ends at the next call of the model."""
    if turn.policy.tools[execution.name].category != Category.EXEC:
        return None
    try:
        check_affordable(turn.session_id)
    except (BudgetReached, OutOfCredits) as fault:
        error = f"Not run: {fault.detail}"
        return Outcome(execution=execution, state=State.ERROR, error=error)
    return None


def _send_out(turn: Turn, executions: list[ToolExecution]) -> None:
    """Leave calls to the client that runs them: started here, they end by an answer or in time.

    A client learns of a call by its event, and is spared those whose arguments do not fit.
    """
    wrong = [o for e in executions if (o := _misfit(turn, e))]
    if wrong:
        ledger.record(turn, wrong)
        turn.traces += [_trace(outcome) for outcome in wrong]
    misfits = {o.execution.pk for o in wrong}
    if fit := [e for e in executions if e.pk not in misfits]:
        ledger.begin(turn, fit)


def _misfit(turn: Turn, execution: ToolExecution) -> Outcome | None:
    try:
        turn.policy.tools[execution.name].parse(execution.input)
    except ToolFailed as fault:
        return Outcome(execution=execution, state=State.ERROR, error=fault.detail)
    return None


def _execute_together(turn: Turn, executions: list[ToolExecution]) -> None:
    if not executions:
        return
    turn.sign.check()
    if any(turn.policy.tools[e.name].category in mounting.SEEING for e in executions):
        mounting.prepare(turn)
    ledger.begin(turn, executions)
    let_go()
    reached("inside_tool")
    jobs = [Job(turn, e, turn.policy.tools[e.name]) for e in executions]
    outcomes = [job.wait() for job in jobs]
    turn.sign.check()
    reached("before_tool_result")
    for outcome in outcomes:
        outcome.execution.parked = isinstance(outcome.output, Parked)
    outcomes = [outcome for outcome in outcomes if not outcome.execution.parked]
    if outcomes:
        ledger.record(turn, outcomes, also=partial(charge_commands, turn, outcomes))
    turn.traces += [_trace(outcome) for outcome in outcomes]


def _trace(outcome: Outcome) -> str:
    call = outcome.execution
    facts = [call.name, call.input, outcome.state, outcome.output, outcome.error]
    return sha256(orjson.dumps(facts, default=str, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _check_stuck(turn: Turn) -> None:
    newest = turn.traces[-SAME_AGAIN:]
    if len(newest) == SAME_AGAIN and len(set(newest)) == 1:
        raise LimitReached(
            f"Stuck: the same call gave the same result {SAME_AGAIN} times in a row."
        )
