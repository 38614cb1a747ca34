"""What goes wrong in a workflow, its tasks and its terminals."""

from __future__ import annotations

from config.faults.base import Fault
from config.faults.requests import Conflict, TooManyRequests, Unauthenticated


class NonRetryableError(Fault):
    """This step failed in a way that trying again will not mend."""

    code = "non_retryable"


class ResultTooLarge(NonRetryableError):
    """What a step returns is kept, so it may have at most 1 MiB as JSON. Store it elsewhere and return where."""

    code = "result_too_large"


class ResultUnfit(NonRetryableError):
    """What a step returns is kept as JSON, and this cannot be written as such."""

    code = "result_unfit"


class CallUnknown(NonRetryableError):
    """Nobody knows whether this call took effect, so it is not made again by itself. Look at what it did; then start from this step again, or leave it."""

    code = "call_unknown"


class StepFailed(Fault):
    """A step of the workflow failed for good."""

    code = "step_failed"

    def __init__(self, detail: str = "", *, step: str = "", reason: str = "step_failed") -> None:
        super().__init__(detail)
        self.step = step
        #: The code of what went wrong in it.
        self.reason = reason


class WaitTimedOut(StepFailed):
    """What the step waited for did not come in time."""

    code = "timeout"


class WorkflowRejected(StepFailed):
    """A person said no."""

    code = "rejected"


class NonDeterminism(Fault):
    """The workflow's code came to another step than the first time. Give changed code a new version."""

    code = "non_determinism"


class WorkflowEnded(Conflict):
    """The workflow is over."""

    code = "workflow_ended"


class WorkflowExists(Conflict):
    """A workflow with this id was started before with another name or other params."""

    code = "workflow_exists"


class InboxFull(Conflict):
    """Too many events wait for this workflow already."""

    code = "inbox_full"


class NoGate(Conflict):
    """No approval is waited for here. It may have been answered already, or its time is up."""

    code = "no_gate"


class TerminalOver(Fault):
    """The terminal is over."""

    code = "terminal_over"
    status = 410


class TerminalsAway(Fault):
    """The process that holds terminals does not answer. Try again in a moment."""

    code = "terminals_away"
    status = 503


class TerminalFailed(Fault):
    """The terminal could not be opened."""

    code = "terminal_failed"
    status = 503


class NoSandbox(Conflict):
    """This workflow has no sandbox to look into: none was made on this machine yet, or it is gone."""

    code = "no_sandbox"


class TooManyTerminals(Conflict):
    """Too many terminals are open here. Close one first."""

    code = "too_many_terminals"


class TooManyViewers(TooManyRequests):
    """Too many people watch this terminal already."""

    code = "too_many_viewers"


class HookRefused(Unauthenticated):
    """This message was not signed with the trigger's secret, or too long ago."""

    code = "hook_refused"


class HookTooLarge(Fault):
    """A message to a trigger has at most 256 KiB."""

    code = "hook_too_large"
    status = 413


class TaskFailed(NonRetryableError):
    """The task did not end well."""

    code = "task_failed"


class CommandFailed(TaskFailed):
    """The command of the task failed."""

    code = "command_failed"


class CommandTimedOut(TaskFailed):
    """The command of the task took too long and was ended."""

    code = "command_timeout"


class CommandUnknown(TaskFailed):
    """Nobody saw how the command ended, so it is not run again by itself. Look at what it did; then start from this step again, or leave it."""

    code = "unknown"


class CommandStopped(TaskFailed):
    """The command was ended before it was done, and is not run again by itself."""

    code = "command_stopped"


class TaskUnpaid(TaskFailed):
    """There is no money for this task."""

    code = "task_unpaid"


class TaskSandboxGone(TaskFailed):
    """The sandbox of this task is gone, or lies on another machine. Start the task from its beginning."""

    code = "sandbox_gone"
