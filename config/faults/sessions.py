"""What goes wrong in a session's lane, its runs and its viewers."""

from __future__ import annotations

from collections.abc import Mapping

from config.faults.base import Fault
from config.faults.requests import Conflict


class SessionEnded(Fault):
    """The session has ended and accepts no more events."""

    code = "session_ended"
    status = 409


class SessionBusy(Fault):
    """The session is busy, and the message asked to be rejected then."""

    code = "session_busy"
    status = 409


class RunOver(Conflict):
    """What was to be stopped does not run any more."""

    code = "run_over"


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


class BudgetReached(Fault):
    """A budget is spent. An admin can raise it; then the session goes on."""

    code = "budget_reached"
    status = 402


class CompactionFailed(Fault):
    """The context could not be compacted. Nothing was changed."""

    code = "compaction_failed"


class SnapshotChanged(Conflict):
    """Another snapshot of this session was made or undone meanwhile."""

    code = "snapshot_changed"


class SlowViewer(Fault):
    """This viewer could not keep up. Connect again after the last event it saw."""

    code = "slow_viewer"
    status = 408


class StreamUnavailable(Fault):
    """The stream cannot be read at the moment. Connect again after the last event you saw."""

    code = "stream_unavailable"
    status = 503
