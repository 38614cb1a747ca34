"""One workflow in the hands of a worker: replays its code, and writes what it does.

The end of a step is written together with the beginning of the next, in one commit. When the code
takes its time in between, the worker's flusher writes it alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import structlog
from django.db import Error
from django.utils import timezone

from agents.models import Agent
from config.faults import NonDeterminism, StaleEpoch
from orchestrator.engine import store
from orchestrator.engine.branches import abandon
from orchestrator.engine.control import Held, Parked, Undoing
from orchestrator.engine.definition import (
    Event,
    Workflow,
    WorkflowAgent,
    registry,
    version_gone,
)
from orchestrator.engine.results import describe, encode_result, trim_notes
from orchestrator.engine.steps import Steps
from orchestrator.engine.store import Body, Claimed
from orchestrator.models import Step
from orchestrator.models import Workflow as Row
from sessions_app.points import reached
from sessions_app.statements import patiently
from sessions_app.stopping import StopSign
from tenants.off_loop import let_go

log = structlog.get_logger(__name__)

#: How long the end of a step waits for the beginning of the next.
FOLD_SECONDS = 0.02
#: Progress that comes faster than this is told in bundles; the newest counts.
TELL_SECONDS = 0.05


class Runner:
    """Goes on with one workflow until it waits, ends, or belongs to somebody else."""

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
        self.steps: Steps

    # ── Running ──────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Never raises what the workflow's own code raised: that is its outcome."""
        try:
            known = store.recorded(self.claimed.id) if self.claimed.has_steps else []
            self.steps = Steps(self, known)
            self._run_class()
        except (Parked, StaleEpoch):
            pass
        finally:
            let_go()

    def _run_class(self) -> None:
        made = registry.get((self.claimed.name, self.claimed.version))
        if made is None:
            self._finish(
                Row.Status.ERRORED, error=version_gone(self.claimed.name, self.claimed.version)
            )
            return
        reached("workflow_claimed")
        try:
            result = self._call(made)
        except Undoing:
            self._undo(self.claimed.undoing or {})
        except NonDeterminism as fault:
            self._finish(Row.Status.ERRORED, error=describe(fault))
        except Exception as error:  # noqa: BLE001 (whatever the workflow raises is its outcome)
            self._fail(describe(error))
        else:
            self._finish(Row.Status.COMPLETE, result=result)

    def _call(self, made: type[Workflow]) -> str:
        held = self.claimed
        event = Event(
            id=held.id,
            key=held.key,
            name=held.name,
            workspace_id=held.workspace_id,
            payload=held.params,
            created_at=held.created_at,
            created_by_id=held.created_by_id,
        )
        value = made(self).run(event, self.steps)
        self.steps.check_complete()
        if held.undoing:
            raise Undoing
        return encode_result(value, "The workflow")

    def _fail(self, error: Body) -> None:
        why = self.claimed.undoing or {"becomes": Row.Status.ERRORED, "error": error}
        if self.steps.undos:
            self._undo(why)
        else:
            self._finish(why["becomes"], error=why["error"])
        if self.steps.has_branches:
            abandon(self.claimed)

    def _undo(self, why: Body) -> None:
        """Roll back what was done, the last first. Each rollback is a step of its own."""
        if self.steps.undos and not self.claimed.undoing:
            ended, _, _ = self._take()
            self._write(lambda _: store.undo(self.claimed, why, ended))
        failed = self.steps.roll_back()
        error = why.get("error")
        if failed:
            error = {**(error or {}), "rollback_failed": failed}
        self._finish(why.get("becomes", Row.Status.ERRORED), error=error)

    def _finish(
        self, becomes: str, *, result: str | None = None, error: Body | None = None
    ) -> None:
        reached("workflow_finishing")
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

    # ── Writing ──────────────────────────────────────────────────────────────────────────────

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
        with self._lock:
            self._ended, self._outcome, self._since = ended, outcome, time.monotonic()

    def park(self, ended: Body) -> None:
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
        try:
            written = patiently(write)
        except StaleEpoch:
            self.sign.give("fenced")
            raise Parked from None
        except Error as error:
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

    # ── Telling ──────────────────────────────────────────────────────────────────────────────

    def say(self, type: str, payload: Body) -> bool:
        """Put something into the log. A replay says nothing again."""
        if self.steps.is_replaying:
            return False
        encode_result(payload, "The message")
        with self._lock:
            if not self._notes:
                self._since = self._since if self._ended else time.monotonic()
            self._notes.append({"type": type, "payload": payload})
        if time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            self.flush(wait=True)
        return True

    def report(self, *, message: str, percent: float | None, step: str, status: str) -> Body | None:
        took = (timezone.now() - self.claimed.started_at).total_seconds()
        share = None if percent is None else min(max(float(percent), 0.0), 100.0)
        eta = round(took * (100 - share) / share, 1) if share else None
        progress: Body = {
            "step": step or self.steps.current_name,
            "status": status,
            "message": message,
        }
        progress |= {"percent": share, "eta_seconds": eta}
        return progress if self.say("progress", progress) else None

    def tell_agent(self, agent: WorkflowAgent, name: str, progress: Body) -> None:
        try:
            agent.on_workflow_progress(name, self.claimed.id, progress)
        except Exception:
            log.exception("progress_hook_failed", workflow_id=str(self.claimed.id))

    def find_agent(self) -> Agent | None:
        if self.claimed.agent_id is None:
            return None
        agents = Agent.objects.for_workspace(self.claimed.workspace_id)
        return agents.select_related("current").filter(pk=self.claimed.agent_id).first()


def is_first_try(begun: Body) -> bool:
    is_plain = begun["kind"] == Step.Kind.DO and "branch" not in begun
    return begun.get("attempt") == 1 and is_plain
