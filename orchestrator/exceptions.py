"""The errors of workflows, tasks, triggers and terminals."""

from __future__ import annotations

from core.exceptions import Conflict, Fault, TooManyRequests, Unauthenticated


class NonRetryableError(Fault):
    """The step failed in a way that a retry cannot fix."""

    code = "non_retryable"


class ResultTooLarge(NonRetryableError):
    """The result of a step may have at most 1 MiB as JSON. Store the data elsewhere and return a reference to it."""

    code = "result_too_large"


class ResultUnfit(NonRetryableError):
    """A step's result is stored as JSON, and this value is not JSON."""

    code = "result_unfit"


class CallUnknown(NonRetryableError):
    """It is unknown whether this call took effect, so it is not repeated automatically. Check what it did, then restart from this step or leave it."""

    code = "call_unknown"


class StepFailed(Fault):
    """A step of the workflow failed for good."""

    code = "step_failed"

    def __init__(self, detail: str = "", *, step: str = "", reason: str = "step_failed") -> None:
        super().__init__(detail)
        self.step = step
        #: The code of the error in the step.
        self.reason = reason


class WaitTimedOut(StepFailed):
    """The step's wait timed out."""

    code = "timeout"


class WorkflowRejected(StepFailed):
    """A person rejected the approval."""

    code = "rejected"


class NonDeterminism(Fault):
    """The workflow's code reached another step than the first time. Give changed code a new version."""

    code = "non_determinism"


class WorkflowEnded(Conflict):
    """The workflow is over."""

    code = "workflow_ended"


class WorkflowExists(Conflict):
    """A workflow with this id was already started with another name or other params."""

    code = "workflow_exists"


class InboxFull(Conflict):
    """Too many events already wait for this workflow."""

    code = "inbox_full"


class NoPendingApproval(Conflict):
    """No approval is pending here. It may have been answered already, or it has expired."""

    code = "no_gate"


class TerminalOver(Fault):
    """The terminal is over."""

    code = "terminal_over"
    status = 410


class TerminalsAway(Fault):
    """The process that runs terminals does not answer. Try again in a moment."""

    code = "terminals_away"
    status = 503


class TerminalFailed(Fault):
    """The terminal could not be opened."""

    code = "terminal_failed"
    status = 503


class NoSandbox(Conflict):
    """This workflow has no sandbox on this machine: none was created yet, or it was removed."""

    code = "no_sandbox"


class TooManyTerminals(Conflict):
    """Too many terminals are open in this workspace. Close one first."""

    code = "too_many_terminals"


class TooManyViewers(TooManyRequests):
    """Too many people already watch this terminal."""

    code = "too_many_viewers"


class HookRefused(Unauthenticated):
    """This message is not signed with the trigger's secret, or its timestamp is too old."""

    code = "hook_refused"


class HookTooLarge(Fault):
    """A message to a trigger may have at most 256 KiB."""

    code = "hook_too_large"
    status = 413


class TaskFailed(NonRetryableError):
    """The task failed."""

    code = "task_failed"


class CommandFailed(TaskFailed):
    """The task's command failed."""

    code = "command_failed"


class CommandTimedOut(TaskFailed):
    """The task's command took too long and was stopped."""

    code = "command_timeout"


class CommandUnknown(TaskFailed):
    """It is unknown how the command ended, so it is not repeated automatically. Check what it did, then restart from this step or leave it."""

    code = "unknown"


class CommandStopped(TaskFailed):
    """The command was stopped before it was done, and is not repeated automatically."""

    code = "command_stopped"


class TaskUnpaid(TaskFailed):
    """There are not enough credits for this task."""

    code = "task_unpaid"


class TaskSandboxGone(TaskFailed):
    """The sandbox of this task is gone or on another machine. Restart the task from the beginning."""

    code = "sandbox_gone"
