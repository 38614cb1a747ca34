"""How a workflow is defined: a class with `run`, registered by name and version."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from inspect import getdoc
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar
from uuid import UUID

from pydantic import BaseModel

from core import plugins
from core.exceptions import Invalid, NotFound
from core.validation import read_input

if TYPE_CHECKING:
    from agents.models import Agent
    from orchestrator.engine.runner import Runner
    from orchestrator.engine.steps import Steps

Backoff: TypeAlias = Literal["constant", "linear", "exponential"]
Seconds: TypeAlias = float | int | timedelta

MAX_SECONDS = 365 * 86_400.0
RETRIES, DELAY, TIMEOUT = 5, 10.0, 600.0
#: Two to this power exceeds the longest pause.
MAX_DOUBLINGS = 32


def to_seconds(given: Seconds) -> float:
    """Return a duration of at most a year in seconds."""
    span = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not 0 <= span <= MAX_SECONDS:
        raise Invalid("A duration is from 0 seconds to 365 days.")
    return span


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often a step is tried. `retries` follow the first attempt; one lost with its worker counts."""

    retries: int = RETRIES
    delay: float = DELAY
    backoff: Backoff = "exponential"
    timeout: float | None = TIMEOUT

    def allows_more(self, attempts: int) -> bool:
        return attempts <= self.retries

    def pause(self, attempts: int) -> float:
        """Return the seconds to wait after this many attempts."""
        match self.backoff:
            case "constant":
                factor = 1
            case "linear":
                factor = attempts
            case "exponential":
                factor = 2 ** min(attempts - 1, MAX_DOUBLINGS)
        return min(self.delay * factor, MAX_SECONDS)


class Suspended(BaseException):
    """The workflow waits, was paused or has another holder: its thread leaves it.

    It derives from BaseException, so that the code of an author does not catch it.
    """


class BranchWaiting(BaseException):
    """This branch waits, at this position; other branches may continue."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class RollingBack(BaseException):
    """The replay has reached the point from which the workflow is rolled back."""


MAX_TYPE = 100


@dataclass(frozen=True, kw_only=True)
class Event:
    """The request that started a workflow."""

    id: UUID
    key: str
    name: str
    workspace_id: UUID
    payload: dict[str, Any]
    created_at: datetime
    created_by_id: UUID | None = None


@dataclass(frozen=True, kw_only=True)
class WorkflowAgent:
    """The agent on whose behalf a workflow runs, as the workflow sees it."""

    workflow: Workflow = field(repr=False)
    record: Agent | None = None

    def broadcast(self, message: object) -> None:
        """Send a message to all viewers of the workflow."""
        self.workflow.broadcast_to_clients(message)

    def on_workflow_progress(self, name: str, workflow_id: UUID, progress: dict[str, Any]) -> None:
        """Override to react to the progress of a workflow. Exceptions are logged and ignored."""


class Workflow:
    """Base class: write `run`, and register the subclass with `@workflow(name=…)`.

    `run` is replayed from its beginning after every wait and every crash, so everything that has an
    effect or may have another result the next time belongs in a step.
    """

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    #: Validates the params before anything starts.
    params: ClassVar[type[BaseModel] | None] = None
    #: Params that the server sets at the start; a repeated request may find other values.
    pinned: ClassVar[frozenset[str]] = frozenset()
    #: Params that describe a run in lists; the first that is set is shown.
    about: ClassVar[tuple[str, ...]] = ()
    #: How many of this name may run at once in a workspace; those that wait do not count.
    concurrency: ClassVar[int | None] = None
    agent_class: ClassVar[type[WorkflowAgent]] = WorkflowAgent
    #: Templates refer to the class; they must not instantiate it.
    do_not_call_in_templates: ClassVar[bool] = True

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._agent: WorkflowAgent | None = None

    def run(self, event: Event, step: Steps) -> Any:
        raise NotImplementedError

    @classmethod
    def description(cls) -> str:
        """Return the first paragraph of the docstring."""
        return (getdoc(cls) or "").split("\n\n")[0]

    @classmethod
    def admit(
        cls, workspace_id: UUID, params: dict[str, Any], given: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the params to start with in this workspace, or raise why it cannot start.

        `given` names the params that the request had; the others are defaults.
        """
        return params

    @property
    def id(self) -> UUID:
        return self._runner.claim.id

    @property
    def runner(self) -> Runner:
        """What runs this workflow in the worker."""
        return self._runner

    @property
    def generation(self) -> int:
        """How often the workflow was restarted."""
        return self._runner.claim.generation

    @property
    def agent(self) -> WorkflowAgent:
        if self._agent is None:
            self._agent = self.agent_class(workflow=self, record=self._runner.find_agent())
        return self._agent

    def report_progress(
        self,
        message: str = "",
        *,
        percent: float | None = None,
        step: str = "",
        status: str = "running",
    ) -> None:
        """Report progress to viewers, at once, and to the agent's `on_workflow_progress`."""
        progress = self._runner.report_progress(
            message=message, percent=percent, step=step, status=status
        )
        if progress is not None:
            self._runner.notify_agent(self.agent, self.name, progress)

    def broadcast_to_clients(self, message: object) -> None:
        """Send a message to all viewers; it stays in the workflow's log."""
        self._runner.log_event("output", {"message": message})

    def log(self, message: str) -> None:
        """Write a line to the workflow's log."""
        self._runner.log_event("log", {"message": message})


def check_event_type(type: str) -> None:
    """Raise unless this is a valid type for an event."""
    if not type or len(type) > MAX_TYPE or "\0" in type:
        raise Invalid(f"The type of an event has 1 to {MAX_TYPE} characters.")


W = TypeVar("W", bound=Workflow)

#: Every workflow class that this process knows, by name and version.
registry: dict[tuple[str, int], type[Workflow]] = {}


def workflow(*, name: str, version: int = 1) -> Callable[[type[W]], type[W]]:
    """Register a class. New workflows use the latest version; others finish with theirs."""

    def register(made: type[W]) -> type[W]:
        known = registry.get((name, version))
        if known and known.__module__ != made.__module__:
            plugins.refuse("workflow", f"{name!r} of version {version} exists already.")
        if not issubclass(made, Workflow):
            plugins.refuse("workflow", f"{name!r} must be a subclass of Workflow.")
        made.name, made.version = name, version
        known_as: type[Workflow] = made
        plugins.add(
            registry,
            (name, version),
            known_as,
            kind="workflow",
            name=name,
            module=made.__module__,
        )
        return made

    return register


def discover() -> None:
    """Import `workflows.py` of every app."""
    plugins.import_from_apps("workflows")


def latest_version(name: str) -> type[Workflow]:
    """Return the latest version of a workflow, by its name or by that of its class."""
    found = [made for (known, _), made in registry.items() if known == name]
    found = found or [made for made in registry.values() if made.__name__ == name]
    if not found:
        names = ", ".join(sorted({known for known, _ in registry}))
        raise NotFound(f"There is no workflow named {name!r}. Available: {names}.")
    return max(found, key=lambda made: made.version)


def definitions() -> list[type[Workflow]]:
    """Return the latest version of each workflow, sorted by name."""
    return [latest_version(name) for name in sorted({name for name, _ in registry})]


def known_versions() -> list[str]:
    """Return the workflows that this process can run, as `name@version`."""
    return [f"{name}@{version}" for name, version in registry]


def unknown_version_error(name: str, version: int) -> dict[str, str]:
    """Return the error of a workflow whose version no code knows any more."""
    known = sorted(number for one, number in registry if one == name)
    has = f"the code now has version {', '.join(map(str, known))}" if known else "its code is gone"
    message = f"This workflow began with version {version} of {name}, but {has}. Start a new one."
    return {"code": "version_gone", "message": message}


def validate_params(made: type[Workflow], params: object, workspace_id: UUID) -> dict[str, Any]:
    """Return the validated params, or raise an error that names each wrong one."""
    if not isinstance(params, dict):
        raise Invalid("params must be a JSON object.")
    given: Collection[str] = params.keys()
    if made.params is not None:
        checked = read_input(made.params, params)
        params, given = checked.model_dump(mode="json"), checked.model_fields_set
    return made.admit(workspace_id, params, given)
