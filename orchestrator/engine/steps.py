"""What a workflow's code may do durably: `step.do`, `step.sleep`, `step.wait_for_event` and the rest.

A step is known by its name and how often the name was used before. A replay must come to the same
steps in the same order; otherwise the workflow ends and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import orjson
from django.db import connection

from config.faults import Invalid, NonRetryableError, StepFailed
from orchestrator.engine import links
from orchestrator.engine.branches import Branches
from orchestrator.engine.control import Held
from orchestrator.engine.definition import check_event_type
from orchestrator.engine.policy import (
    DELAY,
    RETRIES,
    TIMEOUT,
    Backoff,
    Policy,
    Seconds,
    seconds_of,
)
from orchestrator.engine.replay import Kind, Place, Replay, Status, Undo, step_fault
from orchestrator.engine.results import PREVIEW, describe, encode_result
from orchestrator.engine.store import Body
from sessions_app.points import reached
from tenants.ids import uuid7
from tenants.off_loop import let_go
from tools_app.clip import storable, storable_json

T = TypeVar("T")

LOST: Body = {"code": "lost", "message": "The worker was lost while the step ran."}
WAIT_SECONDS = 86_400.0


class Steps(Replay):
    """Given to `run` as `step`."""

    # ── Doing ────────────────────────────────────────────────────────────────────────────────

    def do(
        self,
        name: str,
        act: Callable[[], T],
        *,
        retries: int = RETRIES,
        delay: Seconds = DELAY,
        backoff: Backoff = "exponential",
        timeout: Seconds | None = TIMEOUT,
        rollback: Callable[[T], object] | None = None,
    ) -> T:
        """Run a function once and remember what it returned. Its failures are tried again."""
        limit = None if timeout is None else seconds_of(timeout)
        policy = Policy(retries=retries, delay=seconds_of(delay), backoff=backoff, timeout=limit)
        place = self._place(name, Kind.DO)
        result = self._outcome(place) if self._is_over(place) else self._try(place, act, policy)
        if rollback:
            self.undos.append(
                Undo(
                    name=name,
                    nth=place.nth,
                    position=place.position,
                    act=rollback,
                    result=result,
                    policy=policy,
                )
            )
        return result

    def _try(self, place: Place, act: Callable[[], T], policy: Policy) -> T:
        attempts = place.known.attempts if place.known else 0
        if place.branch and place.known and place.known.is_early:
            raise Held(place.position)
        if place.known and place.known.status == Status.RUNNING:
            # Whoever tried last is gone, or was stopped for taking too long.
            error = place.known.error
            if error or not policy.allows_more(attempts):
                self._failed(place, attempts, error or LOST, policy)
        while True:
            attempts += 1
            self.attempt = attempts
            self._runner.begin(place.body(attempt=attempts, timeout=policy.timeout))
            reached("step_begun")
            self._in_body = True
            try:
                value = act()
                packed = encode_result(value, f"The step {place.name!r}")
            except (Exception, SystemExit) as error:  # noqa: BLE001 (what it raises is its outcome)
                told = describe(error)
                self._failed(place, attempts, told, policy, is_final=_is_final(error))
                continue
            finally:
                self._in_body = False
                if connection.connection is not None:
                    let_go()
            reached("step_done")
            ended = {"position": place.position, "attempt": attempts, "status": Status.COMPLETE}
            self._runner.end({**ended, "preview": packed[:PREVIEW]}, packed)
            # As a replay will see it: tuples are lists, keys are words.
            return orjson.loads(packed)

    def _failed(
        self, place: Place, attempts: int, error: Body, policy: Policy, *, is_final: bool = False
    ) -> None:
        """Raise when that was the last attempt, park when there is a pause, else return."""
        ended: Body = {"position": place.position, "attempt": attempts, "error": error}
        if is_final or not policy.allows_more(attempts):
            self._runner.end({**ended, "status": Status.ERRORED})
            raise step_fault(place.name, error)
        pause = policy.pause(attempts)
        ended |= {"status": Status.RETRYING, "retry_in": pause}
        if pause > 0 and place.branch:
            self._runner.end({**ended, **place.marks})
            self._runner.flush(wait=True)
            raise Held(place.position)
        if pause > 0:
            self._runner.park(ended)
        self._runner.end(ended)

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────

    def sleep(self, name: str, duration: Seconds) -> None:
        """Go on after this time. Nothing is held meanwhile."""
        self._wait(self._place(name, Kind.SLEEP), seconds=seconds_of(duration))

    def sleep_until(self, name: str, moment: datetime) -> None:
        """Go on at this moment; at once when it has passed."""
        if moment.tzinfo is None:
            raise Invalid("A moment needs its time zone.")
        self._wait(self._place(name, Kind.SLEEP), until=moment.isoformat())

    def wait_for_event(
        self, name: str, *, type: str, timeout: Seconds | None = WAIT_SECONDS
    ) -> Any:
        """The payload of the next event of this type; one that came early counts."""
        check_event_type(type)
        seconds = None if timeout is None else seconds_of(timeout)
        place = self._place(name, Kind.WAIT_FOR_EVENT)
        return self._wait(place, seconds=seconds, detail={"type": type})

    def wait_for_approval(
        self,
        name: str,
        *,
        title: str = "",
        message: str = "",
        details: Any = None,
        timeout: Seconds | None = None,
    ) -> Any:
        """Go on when a person says yes: who, and with which note. A no raises WorkflowRejected."""
        seconds = None if timeout is None else seconds_of(timeout)
        detail = storable_json({"title": title or name, "message": message, "details": details})
        place = self._place(name, Kind.WAIT_FOR_APPROVAL)
        if self._is_over(place):
            return self._outcome(place)
        return links.ask_person(self._runner, place, detail, seconds)

    def run_session(
        self,
        name: str,
        *,
        agent: str | UUID,
        message: str,
        session_key: str = "",
        timeout: Seconds | None = None,
    ) -> Any:
        """Let an agent do it: its answer as `text`, with the session and what it used."""
        seconds = None if timeout is None else seconds_of(timeout)
        place = self._place(name, Kind.RUN_SESSION)
        if self._is_over(place):
            return self._outcome(place)
        asked = links.Asked(agent=str(agent), message=storable(message), session_key=session_key)
        before = [one.detail for one in self._known if one.kind == Kind.RUN_SESSION]
        return links.ask_agent(self._runner, place, asked, seconds, before)

    def spawn(
        self,
        name: str,
        workflow: str,
        params: Body | None = None,
        *,
        wait: bool = True,
        timeout: Seconds | None = None,
    ) -> Any:
        """Run another workflow: what it returned or, without waiting, its id."""
        if not wait:
            held = self._runner.claimed
            return self.do(
                name, lambda: str(links.start_child(held, workflow, params or {}, self.key))
            )
        seconds = None if timeout is None else seconds_of(timeout)
        place = self._place(name, Kind.SPAWN)
        if self._is_over(place):
            return self._outcome(place)
        return links.ask_child(self._runner, place, workflow, params or {}, seconds)

    def _wait(self, place: Place, **how: Any) -> Any:
        if self._is_over(place):
            return self._outcome(place)
        if place.branch and place.known:
            raise Held(place.position)
        found = self._runner.begin(place.body(**how))
        return None if found is None else orjson.loads(found)

    # ── At the same time ─────────────────────────────────────────────────────────────────────

    def branches(self) -> Branches:
        """Parts of the workflow that wait at the same time."""
        return Branches(self, self._runner)

    # ── Undoing ──────────────────────────────────────────────────────────────────────────────

    def roll_back(self) -> list[str]:
        """Take back what was done, the last first. Answers which could not be taken back."""
        failed = []
        for undo in sorted(self.undos, key=lambda one: one.position, reverse=True):
            known = self._rollbacks.get((undo.name, undo.nth))
            place = Place(
                id=known.id if known else uuid7(),
                position=known.position if known else self._take_position(),
                name=undo.name,
                nth=undo.nth,
                kind=Kind.ROLLBACK,
                known=known,
            )
            try:
                if self._is_over(place):
                    self._outcome(place)
                else:
                    self._try(place, partial(undo.act, undo.result), undo.policy)
            except StepFailed:
                failed.append(undo.name)
        return failed


def _is_final(error: BaseException) -> bool:
    return isinstance(error, NonRetryableError | Invalid)
