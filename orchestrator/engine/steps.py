"""What a workflow's code may do durably: `step.do`, `step.sleep`, `step.wait_for_event` and the rest.

A step is identified by its name and how often the name was used before. A replay must reach the
same steps in the same order as before; otherwise the workflow fails with NonDeterminism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import orjson
from django.db import connection

from core.db import release_connection
from core.exceptions import Invalid
from core.ids import uuid7
from core.validation import storable, storable_json
from orchestrator import exceptions
from orchestrator.engine import definition, waits
from orchestrator.engine.definition import Backoff, BranchWaiting, RetryPolicy, RollingBack, Seconds
from orchestrator.engine.step_writer import PREVIEW, encode_error, encode_result
from orchestrator.engine.store import Body, RecordedStep
from orchestrator.models import Step
from sessions_app.exceptions import LimitReached
from sessions_app.harness.crash_points import crash_point

if TYPE_CHECKING:
    from orchestrator.engine.runner import Runner
    from sessions_app.lanes.signals import StopSignal

T = TypeVar("T")
Kind, Status = Step.Kind, Step.Status

MAX_STEPS = 10_000
LOST: Body = {"code": "lost", "message": "The worker was lost while the step ran."}
WAIT_SECONDS = 86_400.0


@dataclass(frozen=True, kw_only=True)
class StepCall:
    """One call of a step by the workflow's code, with what is recorded of it."""

    id: UUID
    position: int
    name: str
    nth: int
    kind: str
    recorded: RecordedStep | None
    branch: str = ""

    @property
    def is_over(self) -> bool:
        return self.recorded is not None and self.recorded.status in {
            Status.COMPLETE,
            Status.ERRORED,
        }

    @property
    def branch_field(self) -> Body:
        return {"branch": self.branch} if self.branch else {}

    def body(self, **more: Any) -> Body:
        """Return the step as the engine's SQL functions take it."""
        names = {"position": self.position, "name": self.name, "nth": self.nth, "kind": self.kind}
        return {"id": self.id, **names, **self.branch_field, **more}

    def outcome(self) -> Any:
        """Return or raise what the step returned or raised the first time."""
        if self.recorded and self.recorded.status == Status.ERRORED:
            raise step_error(self.name, self.recorded.error or {})
        result = self.recorded.result if self.recorded else None
        return orjson.loads(result) if result is not None else None


def limit_of(timeout: Seconds | None) -> float | None:
    return None if timeout is None else definition.to_seconds(timeout)


def step_error(name: str, error: Body) -> exceptions.StepFailed:
    """Return what a step that failed for good raises, the first time and at every replay."""
    code = str(error.get("code", "error"))
    kinds = {"timeout": exceptions.WaitTimedOut, "rejected": exceptions.WorkflowRejected}
    kind = kinds.get(code, exceptions.StepFailed)
    return kind(str(error.get("message", "")), step=name, reason=code)


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """How to roll back a finished step."""

    call: StepCall
    act: Callable[[Any], object]
    result: Any
    policy: RetryPolicy


@dataclass(kw_only=True)
class Track:
    """The recorded steps of one branch, and how many of them the code has reached."""

    branch: str
    recorded: list[RecordedStep]
    next: int = 0

    @property
    def is_replaying(self) -> bool:
        return self.next < len(self.recorded)

    def check_complete(self) -> None:
        """Raise unless the code has reached every recorded step."""
        if self.is_replaying:
            raise exceptions.NonDeterminism(
                f"The code ended before step {self.next + 1}, {self.recorded[self.next].name!r}, "
                "which it reached the first time. Give changed code a new version."
            )


class Replay:
    """The steps that a workflow has reached, in order: of its trunk and of each of its branches."""

    def __init__(self, runner: Runner, recorded: list[RecordedStep]) -> None:
        self._runner = runner
        self._recorded = [step for step in recorded if step.kind != Kind.ROLLBACK]
        self._tracks: dict[str, Track] = {}
        self._track = self._track_of("")
        self._rolled_back = {(s.name, s.nth): s for s in recorded if s.kind == Kind.ROLLBACK}
        self._next_position = max((step.position for step in recorded), default=-1) + 1
        self._used: Counter[str] = Counter()
        self._branch_by_name: dict[str, str] = {}
        self._position = -1
        self._in_body = False
        self.rollbacks: list[Rollback] = []
        self.current_name = ""
        #: The number of the attempt that runs, starting at 1.
        self.attempt = 0

    @property
    def stopped(self) -> bool:
        """Whether the step that runs should end, because its result is no longer wanted."""
        return self._runner.sign.event.is_set()

    @property
    def sign(self) -> StopSignal:
        """The stop signal of the step that runs, with the reason."""
        return self._runner.sign

    @property
    def key(self) -> str:
        """An idempotency key for other systems: the same for every attempt of the current step."""
        claim = self._runner.claim
        return f"{claim.id}:{claim.generation}:{self._position}"

    @property
    def is_replaying(self) -> bool:
        return self._track.is_replaying

    @property
    def has_branches(self) -> bool:
        return len(self._tracks) > 1 or any(step.branch for step in self._recorded)

    @contextmanager
    def on_branch(self, name: str) -> Iterator[Track]:
        """Count the steps of the block to this branch, whose steps have an order of their own."""
        if not name or self._track.branch:
            raise Invalid("A branch needs a name, and cannot contain other branches.")
        trunk, self._track = self._track, self._track_of(name)
        try:
            yield self._track
        finally:
            self._track = trunk

    def check_complete(self) -> None:
        """Raise unless the code has reached every recorded step of the trunk and all branches."""
        for branch in {step.branch for step in self._recorded}:
            self._track_of(branch).check_complete()

    def _track_of(self, branch: str) -> Track:
        if branch not in self._tracks:
            recorded = [step for step in self._recorded if step.branch == branch]
            self._tracks[branch] = Track(branch=branch, recorded=recorded)
        return self._tracks[branch]

    def _call(self, name: str, kind: str) -> StepCall:
        """Match the next step of the code with what is recorded."""
        if not name or len(name) > 200 or "\0" in name:
            raise Invalid("The name of a step has 1 to 200 characters.")
        if self._in_body:
            raise Invalid(f"The step {name!r} is inside another step: a replay would miss it.")
        track = self._track
        if self._next_position >= MAX_STEPS and not track.is_replaying:
            raise LimitReached(f"A workflow has at most {MAX_STEPS:,} steps.")
        if self._branch_by_name.setdefault(name, track.branch) != track.branch:
            raise Invalid(f"Another branch has a step named {name!r}. Rename one of them.")
        recorded = track.recorded[track.next] if track.is_replaying else None
        if recorded and (recorded.name, recorded.kind) != (name, kind):
            raise exceptions.NonDeterminism(
                f"Step {track.next + 1} was {recorded.name!r} ({recorded.kind}) the first time, "
                f"and is {name!r} ({kind}) now. Give changed code a new version."
            )
        self._used[name] += 1
        track.next += 1
        self.current_name = name
        is_over = recorded and recorded.status in {Status.COMPLETE, Status.ERRORED}
        if self._runner.claim.undoing and not is_over:
            raise RollingBack
        self._position = recorded.position if recorded else self._take_position()
        return StepCall(
            id=recorded.id if recorded else uuid7(),
            position=self._position,
            name=name,
            nth=self._used[name],
            kind=kind,
            recorded=recorded,
            branch=track.branch,
        )

    def _take_position(self) -> int:
        self._next_position += 1
        return self._next_position - 1


class Steps(Replay):
    """Given to `run` as `step`."""

    # ── Doing ────────────────────────────────────────────────────────────────────────────────

    def do(
        self,
        name: str,
        act: Callable[[], T],
        *,
        retries: int = definition.RETRIES,
        delay: Seconds = definition.DELAY,
        backoff: Backoff = "exponential",
        timeout: Seconds | None = definition.TIMEOUT,
        rollback: Callable[[T], object] | None = None,
    ) -> T:
        """Run a function once and remember what it returned. Failures are retried."""
        seconds, limit = definition.to_seconds(delay), limit_of(timeout)
        policy = RetryPolicy(retries=retries, delay=seconds, backoff=backoff, timeout=limit)
        call = self._call(name, Kind.DO)
        result = call.outcome() if call.is_over else self._try(call, act, policy)
        if rollback:
            self.rollbacks.append(Rollback(call=call, act=rollback, result=result, policy=policy))
        return result

    def _try(self, call: StepCall, act: Callable[[], T], policy: RetryPolicy) -> T:
        attempts = call.recorded.attempts if call.recorded else 0
        if call.branch and call.recorded and call.recorded.is_early:
            raise BranchWaiting(call.position)
        if call.recorded and call.recorded.status == Status.RUNNING:
            # The last attempt's worker is gone, or it was stopped for taking too long.
            error = call.recorded.error
            if error or not policy.allows_more(attempts):
                self._fail(call, attempts, error or LOST, policy)
        while True:
            attempts += 1
            self.attempt = attempts
            self._runner.begin(call.body(attempt=attempts, timeout=policy.timeout))
            crash_point("step_begun")
            self._in_body = True
            try:
                value = act()
                packed = encode_result(value, f"The step {call.name!r}")
            except (Exception, SystemExit) as error:  # noqa: BLE001 (what it raises is its outcome)
                is_final = isinstance(error, exceptions.NonRetryableError | Invalid)
                self._fail(call, attempts, encode_error(error), policy, is_final=is_final)
                continue
            finally:
                self._in_body = False
                if connection.connection is not None:
                    release_connection()
            crash_point("step_done")
            ended = {"position": call.position, "attempt": attempts, "status": Status.COMPLETE}
            self._runner.end({**ended, "preview": packed[:PREVIEW]}, packed)
            # As a replay will see it: tuples become lists, and keys become strings.
            return orjson.loads(packed)

    def _fail(
        self,
        call: StepCall,
        attempts: int,
        error: Body,
        policy: RetryPolicy,
        *,
        is_final: bool = False,
    ) -> None:
        """Record a failed attempt. Raise if it was the last, suspend until the next if that waits."""
        ended: Body = {"position": call.position, "attempt": attempts, "error": error}
        if is_final or not policy.allows_more(attempts):
            self._runner.end({**ended, "status": Status.ERRORED})
            raise step_error(call.name, error)
        pause = policy.pause(attempts)
        ended |= {"status": Status.RETRYING, "retry_in": pause}
        if pause > 0 and call.branch:
            self._runner.end({**ended, **call.branch_field})
            self._runner.flush(wait=True)
            raise BranchWaiting(call.position)
        if pause > 0:
            self._runner.suspend(ended)
        self._runner.end(ended)

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────

    def sleep(self, name: str, duration: Seconds) -> None:
        """Continue after this time. No thread or connection is used meanwhile."""
        self._wait(self._call(name, Kind.SLEEP), seconds=definition.to_seconds(duration))

    def sleep_until(self, name: str, moment: datetime) -> None:
        """Continue at this moment, or at once when it has passed."""
        if moment.tzinfo is None:
            raise Invalid("A moment needs its time zone.")
        self._wait(self._call(name, Kind.SLEEP), until=moment.isoformat())

    def wait_for_event(
        self, name: str, *, type: str, timeout: Seconds | None = WAIT_SECONDS
    ) -> Any:
        """Return the payload of the next event of this type. One that came early counts."""
        definition.check_event_type(type)
        seconds = limit_of(timeout)
        call = self._call(name, Kind.WAIT_FOR_EVENT)
        return self._wait(call, seconds=seconds, detail={"type": type})

    def wait_for_approval(
        self,
        name: str,
        *,
        title: str = "",
        message: str = "",
        details: Any = None,
        timeout: Seconds | None = None,
    ) -> Any:
        """Continue when a person approves: return who, and their note. Else raise WorkflowRejected."""
        seconds = limit_of(timeout)
        detail = storable_json({"title": title or name, "message": message, "details": details})
        call = self._call(name, Kind.WAIT_FOR_APPROVAL)
        if call.is_over:
            return call.outcome()
        return waits.ask_person(self._runner, call, detail, seconds)

    def run_session(
        self,
        name: str,
        *,
        agent: str | UUID,
        message: str,
        session_key: str = "",
        timeout: Seconds | None = None,
    ) -> Any:
        """Ask an agent: return its answer as `text`, with the session and its usage."""
        seconds = limit_of(timeout)
        call = self._call(name, Kind.RUN_SESSION)
        if call.is_over:
            return call.outcome()
        asked = waits.AgentMessage(
            agent=str(agent), message=storable(message), session_key=session_key
        )
        before = [step.detail for step in self._recorded if step.kind == Kind.RUN_SESSION]
        return waits.ask_agent(self._runner, call, asked, seconds, before)

    def spawn(
        self,
        name: str,
        workflow: str,
        params: Body | None = None,
        *,
        wait: bool = True,
        timeout: Seconds | None = None,
    ) -> Any:
        """Run another workflow: return its result or, without waiting, its id."""
        if not wait:
            claim = self._runner.claim
            return self.do(
                name, lambda: str(waits.start_child(claim, workflow, params or {}, self.key))
            )
        seconds = limit_of(timeout)
        call = self._call(name, Kind.SPAWN)
        if call.is_over:
            return call.outcome()
        return waits.ask_child(self._runner, call, workflow, params or {}, seconds)

    def _wait(self, call: StepCall, **how: Any) -> Any:
        if call.is_over:
            return call.outcome()
        if call.branch and call.recorded:
            raise BranchWaiting(call.position)
        result = self._runner.begin(call.body(**how))
        return None if result is None else orjson.loads(result)

    def branches(self) -> Branches:
        """Return what runs parts of the workflow that wait at the same time."""
        return Branches(self, self._runner)

    # ── Rolling back ─────────────────────────────────────────────────────────────────────────

    def roll_back(self) -> list[str]:
        """Roll back what was done, the last first. Return the names of steps where that failed."""
        failed = []
        # Positions are unique among the steps of all branches.
        for rollback in sorted(self.rollbacks, key=lambda one: one.call.position, reverse=True):
            done = rollback.call
            recorded = self._rolled_back.get((done.name, done.nth))
            call = StepCall(
                id=recorded.id if recorded else uuid7(),
                position=recorded.position if recorded else self._take_position(),
                name=done.name,
                nth=done.nth,
                kind=Kind.ROLLBACK,
                recorded=recorded,
            )
            try:
                if call.is_over:
                    call.outcome()
                else:
                    self._try(call, partial(rollback.act, rollback.result), rollback.policy)
            except exceptions.StepFailed:
                failed.append(done.name)
        return failed


class Branches:
    """Runs branches: `run` each of them, then `wait`, which returns only when none of them waits.

    What a branch raises is raised at once. When that ends the workflow, the others end with it.
    """

    def __init__(self, steps: Replay, runner: Runner) -> None:
        self._steps, self._runner = steps, runner
        self._waiting: list[int] = []

    def run(self, name: str, act: Callable[[], object]) -> bool:
        """Continue this branch as far as possible. Return True when it has reached its end."""
        with self._steps.on_branch(name) as track:
            try:
                act()
            except BranchWaiting as waiting:
                self._waiting.append(waiting.position)
                return False
            except RollingBack:  # the other branches have steps to roll back too
                return False
            track.check_complete()
        return True

    def wait(self) -> None:
        """Suspend until the first of the branches that wait can continue."""
        if self._runner.claim.undoing:
            raise RollingBack
        if self._waiting:
            self._runner.suspend_branches(self._waiting)
