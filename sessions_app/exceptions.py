"""Errors of sessions: of their lanes, runs, approvals and viewers."""

from __future__ import annotations

from collections.abc import Mapping

from core.exceptions import Conflict, Fault, TooManyRequests


class SessionEnded(Fault):
    """The session has ended and accepts no more events."""

    code = "session_ended"
    status = 409


class SessionBusy(Fault):
    """The session is busy, and the message asked to be rejected in that case."""

    code = "session_busy"
    status = 409


class QueueFull(TooManyRequests):
    """Too many messages wait in this session. Wait until some are answered, or withdraw them."""

    code = "queue_full"

    def __init__(self, detail: str = "", *, retry_after: float = 5) -> None:
        super().__init__(detail, retry_after=retry_after)


class WorkspaceQueueFull(QueueFull):
    """Too many runs wait in this workspace. Wait until some have ended."""


class RunOver(Conflict):
    """This run is no longer running."""

    code = "run_over"


class NothingToAnswer(Fault):
    """No call with this id waits for an answer. It may have been answered, stopped or timed out."""

    code = "nothing_to_answer"
    status = 409


class AlreadyAnswered(NothingToAnswer):
    """This has already been answered."""

    def __init__(self, detail: str = "", *, answer: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        #: Who answered what and when, for the body of the problem.
        self.extra = {"answer": dict(answer)} if answer else {}


class StillAsks(Conflict):
    """A rule of the agent would not help, because another policy asks. Allow it once or for this
    session.
    """

    code = "still_asks"


class RunStopped(Fault):
    """The run was told to stop."""

    code = "run_stopped"


class LimitReached(Fault):
    """The run reached one of its limits."""

    code = "limit_reached"

    def __init__(self, detail: str = "", *, stop_reason: str = "step_limit") -> None:
        super().__init__(detail)
        #: Which limit it was.
        self.stop_reason = stop_reason


class AnswerMisshapen(Fault):
    """The answer does not fit the response schema."""

    code = "answer_misshapen"


class CompactionFailed(Fault):
    """The context could not be compacted. Nothing was changed."""

    code = "compaction_failed"


class SnapshotChanged(Conflict):
    """Another snapshot of this session was made or undone in the meantime."""

    code = "snapshot_changed"


class StreamUnavailable(Fault):
    """The stream cannot be read at the moment. Reconnect after the last event you saw."""

    code = "stream_unavailable"
    status = 503
