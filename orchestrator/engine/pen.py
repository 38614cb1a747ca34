"""What a worker writes of its workflow: the end of a step with the beginning of the next, in one commit.

When the code takes its time in between, the worker's flusher writes the end alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import structlog
from django.db import Error

from config.faults import StaleEpoch
from orchestrator.engine import store
from orchestrator.engine.control import Held, Parked
from orchestrator.engine.results import encode_result, trim_notes
from orchestrator.engine.store import Body, Claimed
from orchestrator.models import Step
from sessions_app.statements import patiently
from sessions_app.stopping import StopSign
from tools_app.clip import storable_json

log = structlog.get_logger(__name__)

#: How long the end of a step waits for the beginning of the next.
FOLD_SECONDS = 0.02
#: Progress that comes faster than this is told in bundles; the newest counts.
TELL_SECONDS = 0.05
#: Why a holder leaves whose database did not come back in time.
LOST = "database"


class Pen:
    """Writes for one holder, in the order of its code; what is fenced leaves."""

    def __init__(self, claimed: Claimed, sign: StopSign, ring: Callable[[Claimed], object]) -> None:
        self.claimed = claimed
        self.sign = sign
        self._ring = ring
        self._lock = threading.Lock()
        self._ended: Body | None = None
        self._outcome: str | None = None
        self._notes: list[Body] = []
        self._since = 0.0
        self._told = 0.0

    # ── Steps ────────────────────────────────────────────────────────────────────────────────

    def begin(self, begun: Body) -> str | None:
        """Write the beginning of a step with the end of the one before. Leaves when it parks."""
        self.sign_check()
        with self._lock:
            ended, outcome, notes = self._take()
            # One that has to be repeated goes the careful way, which knows repetitions.
            if (
                ended
                and outcome
                and not notes
                and is_first_try(begun)
                and self._write(
                    lambda again: not again and store.go_on(self.claimed, ended, outcome, begun)
                )
            ):
                return None
            state, result = self._write(
                lambda _: store.advance(
                    self.claimed, ended=ended, outcome=outcome, begun=begun, notes=notes
                )
            )
        if state == "held":
            raise Held(begun["position"])
        if state != "running":
            raise Parked
        return result

    def end(self, ended: Body, outcome: str | None = None) -> None:
        """Remember how a step ended; it is written with what comes next, or soon by itself."""
        if self._ended:
            # What another branch did is not forgotten over this one, which began nothing first.
            self.flush(wait=True)
        with self._lock:
            self._ended, self._outcome, self._since = ended, outcome, time.monotonic()

    def park(self, ended: Body) -> NoReturn:
        """Write that a step is tried again later, and leave."""
        self.end(ended)
        self.flush(wait=True)
        raise Parked

    def hold(self, waits: Sequence[int]) -> NoReturn:
        """Leave until one of these steps, each of another branch, is over."""
        self.sign_check()
        with self._lock:
            ended, outcome, notes = self._take()
            self._write(
                lambda _: store.hold(self.claimed, waits, ended=ended, outcome=outcome, notes=notes)
            )
        raise Parked

    # ── The whole ────────────────────────────────────────────────────────────────────────────

    def undo(self, why: Body) -> None:
        """Write that it is rolled back from here on, after all that it did before."""
        self.flush(wait=True)
        with self._lock:
            self._write(lambda _: store.undo(self.claimed, why))

    def finish(self, becomes: str, *, result: str | None = None, error: Body | None = None) -> None:
        with self._lock:
            ended, outcome, notes = self._take()
            self._write(
                lambda _: store.finish(
                    self.claimed,
                    becomes,
                    result=result,
                    error=error,
                    ended=ended,
                    outcome=outcome,
                    notes=notes,
                )
            )

    def note(self, type: str, payload: Body) -> None:
        """Put something into the log, at once unless it comes very fast."""
        payload = storable_json(payload)
        encode_result(payload, "The message")
        with self._lock:
            if not self._notes:
                self._since = self._since if self._ended else time.monotonic()
            self._notes.append({"type": type, "payload": payload})
        if time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            self.flush(wait=True)

    # ── Writing ──────────────────────────────────────────────────────────────────────────────

    def flush(self, *, wait: bool = False, older_than: float = 0.0) -> None:
        """Write what is remembered, if it has waited long enough."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if not (self._ended or self._notes) or time.monotonic() - self._since < older_than:
                return
            ended, outcome, notes = self._take()
            if ended:
                self._write(
                    lambda _: store.advance(self.claimed, ended=ended, outcome=outcome, notes=notes)
                )
            else:
                self._write(lambda _: store.say(self.claimed, notes))
        finally:
            self._lock.release()

    def _take(self) -> tuple[Body | None, str | None, list[Body]]:
        taken = self._ended, self._outcome, trim_notes(self._notes)
        self._ended, self._outcome, self._notes = None, None, []
        return taken

    def _write(self, write: Callable[[bool], Any]) -> Any:
        """Whoever is fenced, or cannot write for a minute, leaves; the author's code cannot stay."""
        if self.sign.reason == LOST:
            # Something that came before this was not written, by whichever thread.
            raise Parked
        try:
            written = patiently(write)
        except StaleEpoch:
            self.sign.give("fenced")
            raise Parked from None
        except Error as error:
            self.sign.give(LOST)
            log.warning("workflow_let_go", workflow_id=str(self.claimed.id), error=str(error))
            raise Parked from error
        self.ring()
        return written

    def ring(self) -> None:
        """Tell those who watch that the log grew."""
        self._ring(self.claimed)

    def sign_check(self) -> None:
        if self.sign.event.is_set():
            raise Parked


def is_first_try(begun: Body) -> bool:
    is_plain = begun["kind"] == Step.Kind.DO and "branch" not in begun
    return begun.get("attempt") == 1 and is_plain
