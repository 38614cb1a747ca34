"""What a worker writes for its workflow: the end of a step and the start of the next, in one commit.

When the workflow's code takes its time in between, the host's flush thread writes the end alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import orjson
import structlog
from django.db import Error

from core.exceptions import Fault, StaleEpoch
from core.validation import storable_json
from orchestrator.engine import store
from orchestrator.engine.definition import BranchWaiting, Suspended
from orchestrator.engine.store import Body, WorkflowClaim
from orchestrator.exceptions import ResultTooLarge, ResultUnfit, StepFailed
from orchestrator.models import Step
from sessions_app.lanes.signals import StopSignal
from sessions_app.log.sql import retry_on_disconnect

log = structlog.get_logger(__name__)

#: How long the end of a step waits for the start of the next.
FLUSH_SECONDS = 0.02
#: Events that come faster than this are written in batches.
EVENT_SECONDS = 0.05
#: Why a holder gives up when the database was away for too long.
DATABASE_LOST = "database"
MAX_BYTES = 1024 * 1024
PREVIEW = 300
MAX_MESSAGE = 4_000


class StepWriter:
    """Writes for one holder, in the order of its code. A holder that is fenced gives up."""

    def __init__(
        self, claim: WorkflowClaim, sign: StopSignal, publish: Callable[[WorkflowClaim], object]
    ) -> None:
        self.claim = claim
        self.sign = sign
        self._publish = publish
        self._lock = threading.Lock()
        self._ended: Body | None = None
        self._outcome: str | None = None
        self._events: list[Body] = []
        self._pending_since = 0.0
        self._events_written_at = 0.0

    # ── Steps ────────────────────────────────────────────────────────────────────────────────

    def begin(self, begun: Body) -> str | None:
        """Write the start of a step with the end of the one before. Return its result if known.

        Raise Suspended when the workflow waits from here on, BranchWaiting when this branch does.
        """
        self.check_stopped()
        with self._lock:
            ended, outcome, events = self._take()
            # A write that has to be repeated takes the slow path, which recognises repetitions.
            if (
                ended
                and outcome
                and not events
                and is_first_attempt(begun)
                and self._write(
                    lambda again: (
                        not again and store.advance_quickly(self.claim, ended, outcome, begun)
                    )
                )
            ):
                return None
            state, result = self._write(
                lambda _: store.advance(
                    self.claim, ended=ended, outcome=outcome, begun=begun, events=events
                )
            )
        if state == "held":
            raise BranchWaiting(begun["position"])
        if state != "running":
            raise Suspended
        return result

    def end(self, ended: Body, outcome: str | None = None) -> None:
        """Remember how a step ended. It is written with what comes next, or soon by itself."""
        if self._ended:
            # The end of a step of another branch is still pending, and nothing began after it.
            self.flush(wait=True)
        with self._lock:
            self._ended, self._outcome, self._pending_since = ended, outcome, time.monotonic()

    def suspend(self, ended: Body) -> NoReturn:
        """Write that a step will be retried later, and raise Suspended."""
        self.end(ended)
        self.flush(wait=True)
        raise Suspended

    def suspend_branches(self, positions: Sequence[int]) -> NoReturn:
        """Suspend the workflow until one of these steps, each of another branch, has ended."""
        self.check_stopped()
        with self._lock:
            ended, outcome, events = self._take()
            self._write(
                lambda _: store.suspend_branches(
                    self.claim, positions, ended=ended, outcome=outcome, events=events
                )
            )
        raise Suspended

    # ── The workflow ─────────────────────────────────────────────────────────────────────────

    def begin_rollback(self, why: Body) -> None:
        """Write that the workflow is rolled back from here on, after all that it did before."""
        self.flush(wait=True)
        with self._lock:
            self._write(lambda _: store.begin_rollback(self.claim, why))

    def finish(self, becomes: str, *, result: str | None = None, error: Body | None = None) -> None:
        with self._lock:
            ended, outcome, events = self._take()
            self._write(
                lambda _: store.finish(
                    self.claim,
                    becomes,
                    result=result,
                    error=error,
                    ended=ended,
                    outcome=outcome,
                    events=events,
                )
            )

    def append_event(self, type: str, payload: Body) -> None:
        """Append an event to the log: at once, or in a batch when events come fast."""
        payload = storable_json(payload)
        encode_result(payload, "The message")
        with self._lock:
            if not self._events:
                self._pending_since = self._pending_since if self._ended else time.monotonic()
            self._events.append({"type": type, "payload": payload})
        if time.monotonic() - self._events_written_at >= EVENT_SECONDS:
            self._events_written_at = time.monotonic()
            self.flush(wait=True)

    # ── Writing ──────────────────────────────────────────────────────────────────────────────

    def flush(self, *, wait: bool = False, older_than: float = 0.0) -> None:
        """Write what is pending, if it has been pending for long enough."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            is_pending = self._ended or self._events
            if not is_pending or time.monotonic() - self._pending_since < older_than:
                return
            ended, outcome, events = self._take()
            if ended:
                self._write(
                    lambda _: store.advance(self.claim, ended=ended, outcome=outcome, events=events)
                )
            else:
                self._write(lambda _: store.append_events(self.claim, events))
        finally:
            self._lock.release()

    def _take(self) -> tuple[Body | None, str | None, list[Body]]:
        pending = self._ended, self._outcome, compact_events(self._events)
        self._ended, self._outcome, self._events = None, None, []
        return pending

    def _write(self, write: Callable[[bool], Any]) -> Any:
        """Write, repeating for a minute while the database is away.

        Raise Suspended when that fails or the holder is fenced: the author's code cannot catch it.
        """
        if self.sign.reason == DATABASE_LOST:
            # An earlier write, perhaps of another thread, failed.
            raise Suspended
        try:
            written = retry_on_disconnect(write)
        except StaleEpoch:
            self.sign.send("fenced")
            raise Suspended from None
        except Error as error:
            self.sign.send(DATABASE_LOST)
            log.warning("workflow_let_go", workflow_id=str(self.claim.id), error=str(error))
            raise Suspended from error
        self.publish()
        return written

    def publish(self) -> None:
        """Notify viewers that the log grew."""
        self._publish(self.claim)

    def check_stopped(self) -> None:
        if self.sign.event.is_set():
            raise Suspended


def is_first_attempt(begun: Body) -> bool:
    is_plain = begun["kind"] == Step.Kind.DO and "branch" not in begun
    return begun.get("attempt") == 1 and is_plain


# ── Results, errors and events as JSON ───────────────────────────────────────────────────────────


def encode_result(value: Any, subject: str) -> str:
    """Return the value as JSON, or raise an error that says why it cannot be stored."""
    try:
        packed = orjson.dumps(value)
    except TypeError as error:
        raise ResultUnfit(f"{subject} returned a value that is not JSON: {error}.") from None
    if len(packed) > MAX_BYTES:
        raise ResultTooLarge(
            f"{subject} returned {len(packed):,} bytes; the limit is {MAX_BYTES:,}. "
            "Store the data elsewhere and return a reference to it."
        )
    return packed.decode()


def encode_error(error: BaseException) -> Body:
    """Return an exception as it is stored and shown."""
    message = error.detail if isinstance(error, Fault) else str(error)
    if isinstance(error, SystemExit):
        message = f"The code ended the whole program: exit({error.code!r})."
    code = error.code if isinstance(error, Fault) else "error"
    encoded: Body = {"code": code, "type": type(error).__name__}
    if isinstance(error, StepFailed):
        encoded |= {"code": error.reason, "step": error.step}
    # PostgreSQL's JSON cannot hold NUL, and lone surrogates cannot be sent at all.
    text = (message or type(error).__name__).encode(errors="replace").decode().replace("\0", "")
    return {**encoded, "message": text[:MAX_MESSAGE]}


def compact_events(events: list[Body]) -> list[Body]:
    """Keep only the newest progress of a batch, and join adjacent pieces of one output stream."""
    last = max((nth for nth, one in enumerate(events) if one["type"] == "progress"), default=-1)
    kept: list[Body] = []
    for nth, event in enumerate(events):
        if event["type"] == "progress" and nth != last:
            continue
        if not (kept and _join(kept, event)):
            kept.append(event)
    return kept


def _join(kept: list[Body], event: Body) -> bool:
    """Append the event to the last one kept. Return False unless both are of one stream."""
    before, now = _stream_piece(kept[-1]), _stream_piece(event)
    if not before or not now or before["stream"] != now["stream"]:
        return False
    joined = {**before, "text": before["text"] + now["text"]}
    kept[-1] = {"type": event["type"], "payload": {"message": joined}}
    return True


def _stream_piece(event: Body) -> Body | None:
    message = event["payload"].get("message") if event["type"] == "output" else None
    is_piece = isinstance(message, dict) and {"stream", "text"} <= message.keys()
    return message if is_piece else None
