"""Runs the tool calls of one step: together where they do not touch the same thing, else in their
order.

Each call runs on its own thread, so that a tool that does not stop cannot block its lane.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

import orjson
import structlog
from django.db import Error
from pydantic import BaseModel

from agents.environments import environment_or_default
from core.db import release_connection
from core.exceptions import Fault
from core.logging import redact_text
from core.validation import fit_json, storable
from sessions_app import ledger
from sessions_app.context.taint import is_tainted
from sessions_app.exceptions import LimitReached
from sessions_app.harness.crash_points import crash_point
from sessions_app.harness.turn import Turn
from sessions_app.ledger import CallResult
from sessions_app.live.output_buffer import open_output, output_publisher, remove_secrets
from sessions_app.log.sql import lock_lane
from sessions_app.models import ToolExecution
from sessions_app.resources import mounts
from sessions_app.sandbox_billing import charge_commands, check_affordable
from tenants.exceptions import BudgetReached, OutOfCredits
from tools_app.exceptions import OutcomeUnknown, ToolFailed, ToolStopped
from tools_app.files import SessionFolder
from tools_app.policy.evaluation import EffectivePolicy
from tools_app.registry import Category, Effect, Parked, Tool, ToolContext
from tools_app.sandbox.base import Mount, Sandbox
from tools_app.sandbox.provisioning import LazySandbox, provision
from tools_app.taint import clip_for_model

log = structlog.get_logger(__name__)

State = ToolExecution.State
GRACE_SECONDS = 2.0  #: How long a stopped tool may take before its result is no longer awaited.
MAX_RESULT = 1_000_000  #: Characters of text, or bytes of JSON, that one call may return.
MAX_ERROR = 1_000  #: Characters of an exception's message that are told.
MAX_REPEATS = 4  #: The same call with the same result this often in a row is a stuck loop.


def tool_context(
    turn: Turn,
    call: ToolExecution,
    *,
    stopped: threading.Event,
    deadline: float,
    emit: Callable[[str], None],
) -> ToolContext:
    """Return what a tool may use while it handles this call."""
    return ToolContext(
        workspace_id=turn.workspace_id,
        session_id=turn.session_id,
        agent_id=turn.agent_id,
        user_id=turn.user_id,
        about_id=turn.about_id,
        run_id=turn.claim.run_id,
        call_id=call.tool_use_id,
        sandbox=LazySandbox(
            lambda: open_sandbox(
                turn.workspace_id, turn.session_id, turn.environment_id, turn.mounts
            ),
            workspace_id=turn.workspace_id,
        ),
        deferred=turn.deferred,
        mounts=turn.mounts,
        judge=partial(judge_call, turn.policy, call.name),
        peers=turn.policy.peers,
        emit=emit,
        is_tainted=lambda: is_tainted(turn.session_id),
        fence=lambda: _fence(turn),
        stopped=stopped,
        deadline=deadline,
    )


def judge_call(policy: EffectivePolicy, name: str, input: Mapping[str, Any]) -> str:
    """Return the policy's verdict on a call, for a tool that asks from a thread of its own."""
    try:
        return policy.decide_call(name, input).decision
    finally:
        release_connection()


def _fence(turn: Turn) -> None:
    """Lock the lane under this run's epoch, which refuses the writes of a worker that lost it."""
    lock_lane(turn.session_id, turn.claim.epoch)


def open_sandbox(
    workspace_id: UUID,
    session_id: UUID,
    environment_id: UUID | None,
    mounts: tuple[Mount, ...] = (),
) -> Sandbox:
    """Return a session's sandbox, as its environment describes it, if it can be paid for."""
    check_affordable(session_id)
    environment = environment_or_default(workspace_id, environment_id)
    release_connection()
    folder = SessionFolder(workspace_id=workspace_id, session_id=session_id)
    return provision(environment, folder, mounts)


class ToolJob:
    """One call on its own thread."""

    def __init__(self, turn: Turn, execution: ToolExecution, tool: Tool) -> None:
        self.execution, self.tool = execution, tool
        self.stopped = threading.Event()
        self.done = threading.Event()
        #: The call has ended, or should have.
        self._ended = threading.Event()
        self.result = self._result_if_unfinished()
        self._turn = turn
        self._seconds = max(1.0, min(tool.seconds, turn.seconds_left))
        threading.Thread(target=self._work, name=f"tool {tool.name}", daemon=True).start()

    def _result_if_unfinished(self) -> CallResult:
        state = State.ERROR if self.execution.is_repeatable else State.UNKNOWN
        return CallResult(self.execution, state, error="The tool did not stop in time.")

    def _work(self) -> None:
        try:
            self.result = self._call()
        finally:
            release_connection()
            self.done.set()
            self._ended.set()

    def _call(self) -> CallResult:
        call = self.execution
        try:
            arguments = self.tool.parse(call.input)
            output = self._run_handler(arguments)
        except ToolStopped:
            return CallResult(call, State.CANCELLED, error="Stopped before it ended.")
        except Fault as fault:
            state = State.UNKNOWN if isinstance(fault, OutcomeUnknown) else State.ERROR
            return CallResult(call, state, error=self._masked(fault.detail))
        except (Exception, SystemExit) as error:
            log.exception("tool_crashed", tool=call.name)
            return CallResult(call, State.ERROR, error=self._describe_crash(error))
        return self._checked(output)

    def _checked(self, output: Any) -> CallResult:
        """Return the result, or that call's error if the log cannot hold what the tool returned."""
        call = self.execution
        if isinstance(output, Parked):
            return CallResult(call, State.COMPLETED, output=output)
        try:
            fitted = storable(output) if isinstance(output, str) else fit_json(output)
            return CallResult(call, State.COMPLETED, output=_bounded(self._masked(fitted)))
        except ValueError as error:
            told = f"The tool {call.name} ran and returned what cannot be stored as JSON: {error}"
            return CallResult(call, State.ERROR, error=self._masked(told))

    def _describe_crash(self, error: BaseException) -> str:
        """Say which exception the tool raised. A message of the database may quote other rows."""
        kind = type(error).__name__
        told = "" if isinstance(error, Error) else self._masked(redact_text(str(error))).strip()
        message = f"{kind}: {clip_for_model(told, MAX_ERROR)}" if told else kind
        return f"The tool {self.execution.name} raised {message}"

    def _masked(self, value: Any) -> Any:
        """Return the value without the secrets that are mounted in this turn."""
        if not self._turn.secrets:
            return value
        if isinstance(value, str):
            return remove_secrets(value, self._turn.secrets)
        if isinstance(value, dict):
            return {self._masked(key): self._masked(item) for key, item in value.items()}
        return [self._masked(item) for item in value] if isinstance(value, list) else value

    def _run_handler(self, arguments: BaseModel) -> Any:
        turn, deadline = self._turn, time.monotonic() + self._seconds
        with open_output(turn.claim, self.execution, turn.secrets) as output:
            context = tool_context(
                turn,
                self.execution,
                stopped=self.stopped,
                deadline=deadline,
                emit=partial(output_publisher().write, output),
            )
            return self.tool.handler(arguments, context)

    def wait(self) -> CallResult:
        """Return the result, at the latest shortly after the time limit or the stop signal."""
        with self._turn.stop_signal.on_stop(self._stop):
            if not self._ended.wait(self._seconds):
                self._stop()
            if self.stopped.is_set():
                self.done.wait(GRACE_SECONDS)
        return self.result

    def _stop(self) -> None:
        self.stopped.set()
        self._ended.set()


def _bounded(output: Any) -> Any:
    """Return a result that is small enough for the log. Long text is cut in the middle."""
    if isinstance(output, str):
        return clip_for_model(output, MAX_RESULT)
    size = len(orjson.dumps(output))
    if size > MAX_RESULT:
        raise ValueError(f"it has {size:,} bytes, and {MAX_RESULT:,} are allowed.")
    return output


def execute(turn: Turn, executions: list[ToolExecution]) -> None:
    """Run every call that may run, and record the results."""
    refused = [r for e in executions if (r := _refusal(turn, e))]
    if refused:
        ledger.record(turn, refused)
    closed = {r.execution.pk for r in refused}
    ready = [e for e in executions if e.state == State.REQUESTED and e.pk not in closed]
    outgoing = [e for e in ready if e.ownership == "custom"]
    _hand_to_client(turn, outgoing)
    ready = [e for e in ready if e not in outgoing]
    for batch in parallel_batches(ready, turn.policy.tools, turn.limits.max_parallel_calls):
        _execute_together(turn, batch)
    _check_stuck(turn)


#: The target of a call that may change anything.
ANYTHING = "*"


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What a call touches, and whether it changes it."""

    changes: bool
    target: str

    def conflicts_with(self, other: Reach) -> bool:
        """Return whether the order of the two calls could matter."""
        if not (self.changes or other.changes):
            return False
        targets = {self.target, other.target}
        return len(targets) == 1 or (ANYTHING in targets and Category.WEB not in targets)


def reach_of(call: ToolExecution, tool: Tool) -> Reach:
    """Return what a call touches. Only remote MCP servers are known to change nothing else."""
    if call.read_only:
        return Reach(changes=False, target=tool.category)
    if tool.ownership == "mcp" and tool.effects == {Effect.NETWORK}:
        return Reach(changes=True, target=call.name.rpartition(":")[0])
    return Reach(changes=True, target=ANYTHING)


def parallel_batches(
    calls: Sequence[ToolExecution], tools: Mapping[str, Tool], most: int
) -> Iterator[list[ToolExecution]]:
    """Yield the calls in their order, those together that can run at the same time."""
    batch: list[tuple[ToolExecution, Reach]] = []
    for call in calls:
        reach = reach_of(call, tools[call.name])
        if len(batch) == most or any(reach.conflicts_with(other) for _, other in batch):
            yield [one for one, _ in batch]
            batch = []
        batch.append((call, reach))
    if batch:
        yield [one for one, _ in batch]


def _refusal(turn: Turn, execution: ToolExecution) -> CallResult | None:
    """Return the result of a call that must not run, or None if it may."""
    tool = turn.policy.tools.get(execution.name)
    if tool is None or tool.for_canvas:
        return CallResult(
            execution, State.ERROR, error=f"There is no tool named {execution.name!r}."
        )
    # A call that waited is checked again: its arguments or the policy may have changed.
    decided = turn.policy.decide_call(execution.name, execution.input)
    if decided.decision == "deny":
        return CallResult(execution, State.DENIED, error=f"Not allowed: {decided.decided_by}.")
    if execution.pk not in turn.spent.calls:
        turn.spent.calls.add(execution.pk)
        if turn.tool_calls > turn.limits.max_tool_calls:
            error = f"Not run: the limit of {turn.limits.max_tool_calls} tool calls is reached."
            return CallResult(execution, State.CANCELLED, error=error)
    return _unaffordable(turn, execution)


def _unaffordable(turn: Turn, execution: ToolExecution) -> CallResult | None:
    """Refuse a command that cannot be paid for. The run itself ends at its next model call."""
    if turn.policy.tools[execution.name].category != Category.EXEC:
        return None
    try:
        check_affordable(turn.session_id)
    except (BudgetReached, OutOfCredits) as fault:
        return CallResult(execution, State.ERROR, error=f"Not run: {fault.detail}")
    return None


def _hand_to_client(turn: Turn, executions: list[ToolExecution]) -> None:
    """Leave calls to the client that runs them. They end with its answer, or by a timeout.

    The client learns of a call by its event, and gets none whose arguments are invalid.
    """
    wrong = [r for e in executions if (r := _invalid_arguments(turn, e))]
    if wrong:
        ledger.record(turn, wrong)
        turn.traces += [_trace(result) for result in wrong]
    invalid = {r.execution.pk for r in wrong}
    if fit := [e for e in executions if e.pk not in invalid]:
        ledger.begin(turn, fit)


def _invalid_arguments(turn: Turn, execution: ToolExecution) -> CallResult | None:
    try:
        turn.policy.tools[execution.name].parse(execution.input)
    except ToolFailed as fault:
        return CallResult(execution, State.ERROR, error=fault.detail)
    return None


def _execute_together(turn: Turn, executions: list[ToolExecution]) -> None:
    if not executions:
        return
    turn.stop_signal.check()
    if any(turn.policy.tools[e.name].category in mounts.FILE_CATEGORIES for e in executions):
        mounts.prepare_mounts(turn)
    ledger.begin(turn, executions)
    release_connection()
    crash_point("inside_tool")
    jobs = [ToolJob(turn, e, turn.policy.tools[e.name]) for e in executions]
    results = [job.wait() for job in jobs]
    turn.stop_signal.check()
    crash_point("before_tool_result")
    for result in results:
        result.execution.parked = isinstance(result.output, Parked)
    results = [result for result in results if not result.execution.parked]
    if results:
        ledger.record(turn, results, also=partial(charge_commands, turn, results))
    turn.traces += [_trace(result) for result in results]


def _trace(result: CallResult) -> str:
    call = result.execution
    facts = [call.name, call.input, result.state, result.output, result.error]
    return sha256(orjson.dumps(facts, default=str, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _check_stuck(turn: Turn) -> None:
    newest = turn.traces[-MAX_REPEATS:]
    if len(newest) == MAX_REPEATS and len(set(newest)) == 1:
        raise LimitReached(
            f"Stuck: the same call gave the same result {MAX_REPEATS} times in a row."
        )
