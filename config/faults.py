"""Every error the product raises on purpose.

The docstring is the default message, `code` is what programs read, `status` is the HTTP answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar


class Fault(Exception):
    """Something went wrong inside Switchyard."""

    code: ClassVar[str] = "fault"
    status: ClassVar[int] = 500

    def __init__(self, detail: str = "") -> None:
        self.detail = detail or (self.__doc__ or "").strip()
        super().__init__(self.detail)


class CannotStart(Fault):
    """Switchyard cannot start."""

    code = "cannot_start"


class Unauthenticated(Fault):
    """Sign in, or send a valid API key."""

    code = "unauthenticated"
    status = 401


class Forbidden(Fault):
    """This identity may not do that here."""

    code = "forbidden"
    status = 403


class NotFound(Fault):
    """There is no such thing, or it is not yours to see."""

    code = "not_found"
    status = 404


class Invalid(Fault):
    """The request is not valid."""

    code = "invalid"
    status = 400


class Conflict(Fault):
    """Someone else changed this first."""

    code = "conflict"
    status = 409


class LastOwner(Conflict):
    """A workspace needs at least one owner."""

    code = "last_owner"


class IdempotencyMismatch(Fault):
    """This Idempotency-Key was used before with another body."""

    code = "idempotency_mismatch"
    status = 422


class IdempotencyInFlight(Conflict):
    """The first request with this Idempotency-Key is still being answered. Try again in a moment."""

    code = "idempotency_in_flight"
    retry_after: ClassVar[float] = 1


class LinkExpired(Fault):
    """This link was used already or is too old. Ask for a new one."""

    code = "link_expired"
    status = 410


class ProviderFault(Fault):
    """The model provider failed."""

    code = "provider_failed"
    status = 502


class ProviderUnavailable(ProviderFault):
    """The model provider is overloaded or out of reach. The call may be tried again."""

    code = "provider_unavailable"

    def __init__(self, detail: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class ProviderRejected(ProviderFault):
    """The model provider refused the request. Trying again with this model will not help."""

    code = "provider_rejected"


class ProviderUnauthorized(ProviderRejected):
    """The model provider refused the key. Check it in the settings."""

    code = "provider_unauthorized"


class ContextOverflow(ProviderRejected):
    """The request is larger than the model's window."""

    code = "context_overflow"


class CompactionFailed(Fault):
    """The context could not be compacted. Nothing was changed."""

    code = "compaction_failed"


class SnapshotChanged(Conflict):
    """Another snapshot of this session was made or undone meanwhile."""

    code = "snapshot_changed"


class ProviderNotConfigured(ProviderFault):
    """No key is set for this model provider. Add one in the settings, or choose the demo provider."""

    code = "provider_not_configured"
    status = 409


class SessionEnded(Fault):
    """The session has ended and accepts no more events."""

    code = "session_ended"
    status = 409


class SessionBusy(Fault):
    """The session is busy, and the message asked to be rejected then."""

    code = "session_busy"
    status = 409


class StaleEpoch(Fault):
    """Another worker holds this session's lane now. Nothing was written."""

    code = "stale_epoch"
    status = 409


class NothingToAnswer(Fault):
    """No call with this id waits for an answer. It may have been answered, stopped or timed out."""

    code = "nothing_to_answer"
    status = 409


class AlreadyAnswered(NothingToAnswer):
    """Somebody else has answered this already."""

    def __init__(self, detail: str = "", *, answer: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        #: Who answered what and when, which the problem carries.
        self.extra = {"answer": dict(answer)} if answer else {}


class StillAsks(Conflict):
    """A rule of the agent would not help: another policy asks. Allow it once or for this session."""

    code = "still_asks"


class CsrfFailed(Forbidden):
    """This form is too old or came from another site. Go back, reload the page and try again."""

    code = "csrf_failed"


class TooManyRequests(Fault):
    """Too many requests. Wait a moment."""

    code = "throttled"
    status = 429

    def __init__(self, detail: str = "", *, retry_after: float = 1) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class TooManyAttempts(TooManyRequests):
    """Too many failed attempts to sign in. Wait a quarter of an hour, or ask for a sign-in link."""

    code = "too_many_attempts"


class MessageTooLong(Fault):
    """A live message is longer than the stream can carry."""

    code = "message_too_long"
    status = 413


class RunStopped(Fault):
    """The run was told to stop."""

    code = "run_stopped"


class LimitReached(Fault):
    """The run reached one of its limits."""

    code = "limit_reached"


class InvalidFields(Invalid):
    """The input is not valid."""

    def __init__(self, detail: str = "", *, errors: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(detail)
        #: One entry per wrong field, as problem+json lists them.
        self.errors = list(errors)


class SlowViewer(Fault):
    """This viewer could not keep up. Connect again after the last event it saw."""

    code = "slow_viewer"
    status = 408


class StreamUnavailable(Fault):
    """The stream cannot be read at the moment. Connect again after the last event you saw."""

    code = "stream_unavailable"
    status = 503


class ToolFailed(Fault):
    """The tool could not do what was asked."""

    code = "tool_failed"
    status = 422


class ToolStopped(Fault):
    """The tool was stopped before it was done."""

    code = "tool_stopped"
    status = 409


class OutcomeUnknown(Fault):
    """The call was sent and no answer came. Whether it took effect is not known."""

    code = "outcome_unknown"
    status = 502


class SandboxUnavailable(ToolFailed):
    """Commands cannot run here: this machine cannot enforce what the sandbox promises."""

    code = "sandbox_unavailable"
    status = 503


class SandboxReplaced(ToolFailed):
    """The sandbox was taken away while this was going on, and its files stayed. Try again."""

    code = "sandbox_replaced"
    status = 409


class EgressRefused(Fault):
    """This address is not on the public internet, so it is not contacted."""

    code = "egress_refused"
    status = 422


class StaleWrite(Conflict):
    """Someone wrote this first. Read the newer version, then write again."""

    def __init__(self, detail: str = "", *, newer: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        #: The version to build on, which the problem carries.
        self.extra = {"current": dict(newer)} if newer else {}


class MemoryConflict(StaleWrite):
    """Someone wrote this document first. Read the newer version, then write again."""

    code = "memory_conflict"


class CanvasConflict(StaleWrite):
    """Someone saved this canvas first. Look at the newer one, then save again."""

    code = "canvas_conflict"


class DraftConflict(StaleWrite):
    """Someone changed this draft first. Look at the newer one, then change it again."""

    code = "draft_conflict"


class MemoryTooLarge(Fault):
    """A document of memory holds at most 100,000 bytes. Split it into several."""

    code = "memory_too_large"
    status = 413


class OutOfCredits(Fault):
    """The workspace has no credits left. An owner can add some."""

    code = "out_of_credits"
    status = 402


class BudgetReached(Fault):
    """A budget is spent. An admin can raise it; then the session goes on."""

    code = "budget_reached"
    status = 402


class ResourceFailed(Fault):
    """This resource could not be prepared."""

    code = "resource_failed"
    status = 422


class FileTooLarge(Fault):
    """This file is larger than a session takes."""

    code = "file_too_large"
    status = 413


class CanvasInvalid(InvalidFields):
    """This canvas cannot run as it is."""

    code = "canvas_invalid"
    status = 422


class SecretMissing(Conflict):
    """The vault of this workspace holds no secret of that name."""

    code = "secret_missing"


class SecretRefused(Forbidden):
    """This secret may not be used there."""

    code = "secret_refused"


class McpFailed(Fault):
    """The MCP server did not do what was asked."""

    code = "mcp_failed"
    status = 502

    def __init__(self, detail: str = "", *, state: str = "failed") -> None:
        super().__init__(detail)
        #: What the server's row says: it is down, it refused, or it failed.
        self.state = state


class NonRetryableError(Fault):
    """This step failed in a way that trying again will not mend."""

    code = "non_retryable"


class ResultTooLarge(NonRetryableError):
    """What a step returns is kept, so it may have at most 1 MiB as JSON. Store it elsewhere and return where."""

    code = "result_too_large"


class ResultUnfit(NonRetryableError):
    """What a step returns is kept as JSON, and this cannot be written as such."""

    code = "result_unfit"


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
    """This workflow has no sandbox to look into: none of its steps runs an agent yet."""

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


class TaskUnpaid(TaskFailed):
    """There is no money for this task."""

    code = "task_unpaid"


class TaskSandboxGone(TaskFailed):
    """The sandbox of this task is gone, or lies on another machine. Start the task from its beginning."""

    code = "sandbox_gone"
