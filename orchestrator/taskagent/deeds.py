"""What the steps of a task do: check its purse, make and leave its place, judge how it ended."""

from __future__ import annotations

from hashlib import sha256
from typing import Any
from uuid import UUID

from agents.definitions import current_version
from agents.environments import default_environment, environment_or_default, find_environment
from agents.models import Environment
from config.faults import (
    BudgetReached,
    CommandFailed,
    CommandTimedOut,
    Fault,
    NonRetryableError,
    OutOfCredits,
    TaskUnpaid,
)
from orchestrator.engine.definition import Event
from orchestrator.taskagent import place
from orchestrator.taskagent.params import TaskParams
from orchestrator.taskagent.place import TaskPlace
from orchestrator.taskagent.purse import owners_of
from orchestrator.taskagent.sessions import chosen_agent
from tenants.spending import check_purses
from tools_app.files import write_file

#: Characters of what a person is shown, and of a question's title.
SHOWN, IN_TITLE = 2_000, 80


def question_of(asked: TaskParams) -> str:
    """What a person is asked, on one line; the whole of it stands below."""
    words = " ".join((asked.command or asked.prompt).split())
    words = words if len(words) <= IN_TITLE else f"{words[: IN_TITLE - 1]}…"
    return f"Run “{words}”?" if asked.command else f"Let an agent answer “{words}”?"


def check_credits(event: Event) -> None:
    """Nothing is begun on an empty purse."""
    try:
        check_purses(event.workspace_id, owners_of(event))
    except (OutOfCredits, BudgetReached) as fault:
        raise TaskUnpaid(fault.detail) from fault


def make_place(event: Event, asked: TaskParams, key: str, session_id: UUID | None = None) -> str:
    """The task's sandbox: the same one, however often the step is tried."""
    environment = None
    if session_id is None:
        environment = chosen_environment(event.workspace_id, asked)
    made = TaskPlace(
        workspace_id=event.workspace_id,
        workflow_id=event.id,
        token=key,
        environment_id=environment.pk if environment else None,
        session_id=session_id,
    )
    return place.make(made).token


def chosen_environment(workspace_id: UUID, asked: TaskParams) -> Environment:
    """The one that is named, else the agent's if one is, else the workspace's."""
    try:
        ref: UUID | str | None = asked.environment
        if asked.agent and not ref:
            ref = current_version(chosen_agent(workspace_id, asked.agent)).environment_id
        return find_environment(workspace_id, ref) if ref else default_environment(workspace_id)
    except Fault as fault:
        raise NonRetryableError(fault.detail) from fault


def environment_of(here: TaskPlace) -> Environment:
    """As it is now; one that was deleted meanwhile leaves the task to the workspace's default."""
    return environment_or_default(here.workspace_id, here.environment_id)


def put_files(here: TaskPlace, asked: TaskParams) -> dict[str, str]:
    """Each file in place at once; the hash of each, so that what is new can be told later."""
    for file in asked.files:
        write_file(here.folder, file.path, file.content)
    return {file.path: sha256(file.content).hexdigest() for file in asked.files}


def keep_place(workflow_id: UUID, token: str, seconds: float) -> float:
    return place.keep(place.reopen(workflow_id, token), seconds)


def close_place(workflow_id: UUID, token: str) -> None:
    found = place.read(workflow_id)
    if found and found.token == token:
        place.close(found)


def too_long(ran: dict[str, Any], seconds: int) -> str:
    """Which limit it was: the task's own, or a shorter one of its environment."""
    took = round(ran["ended_at"] - ran["began_at"])
    if took >= seconds:
        return f"The command took longer than {seconds} s and was ended."
    return (
        f"The command was ended after {took} s: its environment lets none run longer, though the "
        f"task asked for {seconds} s. Raise the environment's limit on time."
    )


def check_outcome(ran: dict[str, Any], seconds: int) -> None:
    """Raise what is wrong with how the command ended, with its last words."""
    if ran["exit_code"] == 0:
        return
    last = ran["output"].rstrip()[-SHOWN:]
    said = f"\n{last}" if last else ""
    if ran["ended_by"] == "time":
        raise CommandTimedOut(f"{too_long(ran, seconds)}{said}")
    if ran["ended_by"] != "itself":
        raise CommandFailed(f"The command was ended by its limit on {ran['ended_by']}.{said}")
    raise CommandFailed(f"The command ended with exit code {ran['exit_code']}.{said}")
