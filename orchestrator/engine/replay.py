"""Finds each step of a replay in what was written down, and notices when the code has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from config.faults import (
    Invalid,
    LimitReached,
    NonDeterminism,
    StepFailed,
    WaitTimedOut,
    WorkflowRejected,
)
from orchestrator.engine.control import Undoing
from orchestrator.engine.policy import Policy
from orchestrator.engine.store import Body, Recorded
from orchestrator.models import Step
from tenants.ids import uuid7

if TYPE_CHECKING:
    from orchestrator.engine.runner import Runner
    from sessions_app.stopping import StopSign

Kind, Status = Step.Kind, Step.Status

MOST_STEPS = 10_000


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the workflow a step stands, and what is known of it."""

    id: UUID
    position: int
    name: str
    nth: int
    kind: str
    known: Recorded | None
    branch: str = ""

    def body(self, **more: Any) -> Body:
        names = {"position": self.position, "name": self.name, "nth": self.nth, "kind": self.kind}
        return {"id": self.id, **names, **self.marks, **more}

    @property
    def marks(self) -> Body:
        """What says that it belongs to a branch."""
        return {"branch": self.branch} if self.branch else {}


@dataclass(frozen=True, kw_only=True)
class Undo:
    """What takes a finished step back."""

    name: str
    nth: int
    #: Where the step stands among all: the last is taken back first, in whichever branch it was.
    position: int
    act: Callable[[Any], object]
    result: Any
    policy: Policy


@dataclass(kw_only=True)
class Track:
    """The steps of one branch that are written down, and how many of them the code has come to."""

    branch: str
    known: list[Recorded]
    next: int = 0

    @property
    def is_replaying(self) -> bool:
        return self.next < len(self.known)

    def check_complete(self) -> None:
        """The code must not end before it has come to everything that it did before."""
        if self.is_replaying:
            raise NonDeterminism(
                f"The code ended before step {self.next + 1}, {self.known[self.next].name!r}, "
                "which it came to the first time. Give changed code a new version."
            )


class Replay:
    """The steps that a workflow has come to, in order: of its trunk, and of each of its branches."""

    def __init__(self, runner: Runner, known: list[Recorded]) -> None:
        self._runner = runner
        self._known = [one for one in known if one.kind != Kind.ROLLBACK]
        self._tracks: dict[str, Track] = {}
        self._track = self._track_of("")
        self._rollbacks = {(one.name, one.nth): one for one in known if one.kind == Kind.ROLLBACK}
        self._free = max((one.position for one in known), default=-1) + 1
        self._used: Counter[str] = Counter()
        self._home: dict[str, str] = {}
        self._position = -1
        self._in_body = False
        self.undos: list[Undo] = []
        self.current_name = ""
        #: Which go at the step's body this is; 1 the first time.
        self.attempt = 0

    @property
    def stopped(self) -> bool:
        """Whether the body that runs should end: nobody waits for what it does any more."""
        return self._runner.sign.event.is_set()

    @property
    def sign(self) -> StopSign:
        """The same, for what waits for it, with the reason why."""
        return self._runner.sign

    @property
    def is_replaying(self) -> bool:
        return self._track.is_replaying

    @property
    def has_branches(self) -> bool:
        return len(self._tracks) > 1 or any(one.branch for one in self._known)

    @contextmanager
    def on_branch(self, name: str) -> Iterator[Track]:
        """What is done meanwhile belongs to this branch, whose steps have an order of their own."""
        if not name or self._track.branch:
            raise Invalid("A branch has a name, and no branches of its own.")
        trunk, self._track = self._track, self._track_of(name)
        try:
            yield self._track
        finally:
            self._track = trunk

    def _track_of(self, branch: str) -> Track:
        if branch not in self._tracks:
            known = [one for one in self._known if one.branch == branch]
            self._tracks[branch] = Track(branch=branch, known=known)
        return self._tracks[branch]

    @property
    def key(self) -> str:
        """The same for every attempt of the current step and for nothing else: for other systems."""
        held = self._runner.claimed
        return f"{held.id}:{held.generation}:{self._position}"

    def _place(self, name: str, kind: str) -> Place:
        if not name or len(name) > 200 or "\0" in name:
            raise Invalid("The name of a step has 1 to 200 characters.")
        if self._in_body:
            raise Invalid(f"The step {name!r} stands within another one: a replay would miss it.")
        track = self._track
        if self._free >= MOST_STEPS and not track.is_replaying:
            raise LimitReached(f"A workflow has at most {MOST_STEPS:,} steps.")
        if self._home.setdefault(name, track.branch) != track.branch:
            raise Invalid(f"A step {name!r} belongs to another branch. Give this one another name.")
        known = track.known[track.next] if track.is_replaying else None
        if known and (known.name, known.kind) != (name, kind):
            raise NonDeterminism(
                f"Step {track.next + 1} was {known.name!r} ({known.kind}) the first time, and is "
                f"{name!r} ({kind}) now. Give changed code a new version."
            )
        self._used[name] += 1
        track.next += 1
        self.current_name = name
        is_done = known and known.status in {Status.COMPLETE, Status.ERRORED}
        if self._runner.claimed.undoing and not is_done:
            raise Undoing
        self._position = known.position if known else self._take_position()
        return Place(
            id=known.id if known else uuid7(),
            position=self._position,
            name=name,
            nth=self._used[name],
            kind=kind,
            known=known,
            branch=track.branch,
        )

    def _take_position(self) -> int:
        self._free += 1
        return self._free - 1

    def _is_over(self, place: Place) -> bool:
        return place.known is not None and place.known.status in {Status.COMPLETE, Status.ERRORED}

    def _outcome(self, place: Place) -> Any:
        """What the step returned or raised the first time."""
        known = place.known
        if known and known.status == Status.ERRORED:
            raise step_fault(place.name, known.error or {})
        return orjson.loads(known.result) if known and known.result is not None else None

    def check_complete(self) -> None:
        """Of the trunk, and of every branch that was ever begun."""
        for branch in {one.branch for one in self._known}:
            self._track_of(branch).check_complete()


def step_fault(name: str, error: Body) -> StepFailed:
    """What a step that failed for good raises, the first time and at every replay."""
    code = str(error.get("code", "error"))
    kind = {"timeout": WaitTimedOut, "rejected": WorkflowRejected}.get(code, StepFailed)
    return kind(str(error.get("message", "")), step=name, reason=code)
