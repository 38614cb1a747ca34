"""What a workflow is to those who write one: a class with `run`, registered by name and version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from inspect import getdoc
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from uuid import UUID

from django.utils.module_loading import autodiscover_modules
from pydantic import BaseModel

from agents.inputs import read_input
from config.faults import Invalid, NotFound

if TYPE_CHECKING:
    from agents.models import Agent
    from orchestrator.engine.runner import Runner
    from orchestrator.engine.steps import Steps


#: Characters of what an event is called.
LONGEST_TYPE = 100


@dataclass(frozen=True, kw_only=True)
class Event:
    """What started a workflow."""

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
        """Send something to everybody who watches the workflow."""
        self.workflow.broadcast_to_clients(message)

    def on_workflow_progress(self, name: str, workflow_id: UUID, progress: dict[str, Any]) -> None:
        """Hear of the progress of a workflow. What it raises is logged and harms nobody."""


class Workflow:
    """Extend it, write `run`, and register the class with `@workflow(name=…)`.

    `run` is replayed from its beginning after every wait and every crash, so everything with an
    effect or an outcome that may differ belongs into a step.
    """

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    #: Checks the params before anything starts.
    params: ClassVar[type[BaseModel] | None] = None
    #: Which params the server sets as it starts: a repetition may find others there.
    pinned: ClassVar[frozenset[str]] = frozenset()
    #: Which params say what a run is about; the first that is there tells it from others.
    about: ClassVar[tuple[str, ...]] = ()
    #: How many of this name may run at once in one workspace; those that wait do not count.
    concurrency: ClassVar[int | None] = None
    agent_class: ClassVar[type[WorkflowAgent]] = WorkflowAgent
    #: Templates speak of the class; they must not make one.
    do_not_call_in_templates: ClassVar[bool] = True

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._agent: WorkflowAgent | None = None

    def run(self, event: Event, step: Steps) -> Any:
        raise NotImplementedError

    @classmethod
    def admit(cls, workspace_id: UUID, params: dict[str, Any]) -> dict[str, Any]:
        """The params that it starts with in this workspace, or an error that says why it cannot."""
        return params

    @property
    def id(self) -> UUID:
        return self._runner.claimed.id

    @property
    def runner(self) -> Runner:
        """The hands that this workflow is in."""
        return self._runner

    @property
    def generation(self) -> int:
        """How often it was restarted: each life counts for itself."""
        return self._runner.claimed.generation

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
        """Tell those who watch, at once, and the agent's `on_workflow_progress`."""
        progress = self._runner.report(message=message, percent=percent, step=step, status=status)
        if progress is not None:
            self._runner.tell_agent(self.agent, self.name, progress)

    def broadcast_to_clients(self, message: object) -> None:
        """Send something to everybody who watches; it stays in the workflow's log."""
        self._runner.say("output", {"message": message})

    def log(self, message: str) -> None:
        """Leave a line in the workflow's log."""
        self._runner.say("log", {"message": message})


def check_event_type(type: str) -> None:
    """What an event is called, by who sends it and by who waits for it."""
    if not type or len(type) > LONGEST_TYPE or "\0" in type:
        raise Invalid(f"The type of an event has 1 to {LONGEST_TYPE} characters.")


W = TypeVar("W", bound=Workflow)

#: Every class that this process knows.
registry: dict[tuple[str, int], type[Workflow]] = {}


def workflow(*, name: str, version: int = 1) -> Callable[[type[W]], type[W]]:
    """Register a class. New workflows use the highest version; others finish on their own."""

    def register(made: type[W]) -> type[W]:
        made.name, made.version = name, version
        registry[name, version] = made
        return made

    return register


def discover() -> None:
    """Import `workflows.py` of every app."""
    autodiscover_modules("workflows")


def current(name: str) -> type[Workflow]:
    """The newest version of a workflow, by its name or by its class's: `ExecuteTask` is found too."""
    found = [made for (known, _), made in registry.items() if known == name]
    found = found or [made for made in registry.values() if made.__name__ == name]
    if not found:
        names = ", ".join(sorted({known for known, _ in registry}))
        raise NotFound(f"No workflow is named {name!r}. There are {names}.")
    return max(found, key=lambda made: made.version)


def definitions() -> list[type[Workflow]]:
    """The newest version of each, by name."""
    return [current(name) for name in sorted({name for name, _ in registry})]


def known_versions() -> list[str]:
    """Which workflows this process can go on with."""
    return [f"{name}@{version}" for name, version in registry]


def version_gone(name: str, version: int) -> dict[str, str]:
    """The error of a workflow whose version no code knows any more."""
    known = sorted(number for one, number in registry if one == name)
    has = f"the code has version {', '.join(map(str, known))}" if known else "the code is gone"
    said = f"It began with version {version} of {name}, and {has} now. Start it anew."
    return {"code": "version_gone", "message": said}


def description_of(made: type[Workflow]) -> str:
    return (getdoc(made) or "").split("\n\n")[0]


def checked_params(made: type[Workflow], params: object, workspace_id: UUID) -> dict[str, Any]:
    """The params as the class wants them, or an error that names each wrong one."""
    if not isinstance(params, dict):
        raise Invalid("params is a JSON object.")
    if made.params is not None:
        params = read_input(made.params, params).model_dump(mode="json")
    return made.admit(workspace_id, params)
