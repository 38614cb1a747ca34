"""Validates requests for tasks and sessions, and starts their workflows."""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AliasChoices, Field, field_validator, model_validator

from agents.definitions import find_agent
from agents.environments import authorise_choice, find_environment
from agents.models import Agent
from core.exceptions import Conflict, NotFound
from core.validation import STORABLE, Input, read_input, wrong_field
from orchestrator.engine.definition import Event
from orchestrator.engine.lifecycle import start_as
from orchestrator.models import Workflow
from tenants.access import ANONYMOUS, Principal, authorise, principal_of_key, principal_of_user
from tenants.billing.spending import check_purses
from tenants.models import ApiKey, User
from tools_app.exceptions import ToolFailed
from tools_app.files import split_path

EXECUTE, CREATE = "execute-task", "create-session"
DAY = 86_400
MAX_FILES = 100
#: All files together; the params as a whole may have at most 1 MiB.
MAX_FILE_BYTES = 768 * 1024
Text = Annotated[str, Field(max_length=100_000), STORABLE]
Name = Annotated[str, Field(max_length=80), STORABLE]


class TaskFile(Input):
    """A file for the task's sandbox, as text or in base64."""

    path: Annotated[str, Field(min_length=1, max_length=500), STORABLE]
    text: Annotated[str, STORABLE] | None = Field(
        default=None, validation_alias=AliasChoices("text", "content")
    )
    base64: str | None = None

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        try:
            names = split_path(path)
        except ToolFailed as fault:
            raise ValueError(fault.detail) from None
        if not names:
            raise ValueError("The path of a file must end with a name.")
        return "/".join(names)

    @model_validator(mode="after")
    def _has_one_content(self) -> Self:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("Give a file either text or base64.")
        self.content  # noqa: B018 (raises if it cannot be decoded)
        return self

    @property
    def content(self) -> bytes:
        if self.text is not None:
            return self.text.encode()
        try:
            return b64decode(self.base64 or "", validate=True)
        except ValueError:
            raise ValueError("This is not base64.") from None


class TaskParams(Input):
    """Either a command for the sandbox, or a prompt for an agent."""

    command: Text = Field(default="", title="Command")
    prompt: Text = Field(default="", title="Prompt")
    agent: Name = Field(
        default="",
        title="Agent",
        description="An agent's name or id. It answers the prompt; a command runs in its environment.",
    )
    environment: Name = Field(
        default="", title="Environment", description="An environment's name or id."
    )
    timeout: int = Field(
        default=600,
        ge=1,
        le=DAY,
        title="Timeout in seconds",
        description="At most what the environment allows a command.",
    )
    approval: bool = Field(default=False, title="Ask for approval first")
    keep_seconds: int = Field(
        default=0,
        ge=0,
        le=30 * DAY,
        title="Keep the sandbox, in seconds",
        description="How long the files of a command stay afterwards. Artifacts are always kept.",
    )
    files: list[TaskFile] = Field(default=[], max_length=MAX_FILES, title="Files")

    @field_validator("command", "prompt", "agent", "environment", mode="before")
    @classmethod
    def _null_is_empty(cls, given: Any) -> Any:
        return "" if given is None else given

    @field_validator("files", mode="before")
    @classmethod
    def _files_as_list(cls, given: Any) -> Any:
        """Accept a mapping of paths to texts, too."""
        if isinstance(given, dict):
            return [{"path": path, "text": text} for path, text in given.items()]
        return [] if given is None else given

    @model_validator(mode="after")
    def _has_command_or_prompt(self) -> Self:
        if bool(self.command.strip()) == bool(self.prompt.strip()):
            raise ValueError("Give a task either a command or a prompt.")
        if sum(len(file.content) for file in self.files) > MAX_FILE_BYTES:
            raise ValueError(f"The files may have at most {MAX_FILE_BYTES:,} bytes together.")
        if len({file.path for file in self.files}) < len(self.files):
            raise ValueError("Two of the files have the same path.")
        return self


class SessionParams(Input):
    """A session to create."""

    agent: Name = Field(default="", title="Agent")
    environment: Name = Field(default="", title="Environment")
    title: Annotated[str, Field(max_length=200), STORABLE] = Field(default="", title="Title")
    session_key: Annotated[str, Field(max_length=200), STORABLE] = Field(default="", title="Key")

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_empty(cls, given: Any) -> Any:
        return "" if given is None else given


def start_task(principal: Principal, fields: dict[str, Any], key: str | None) -> Workflow:
    """Start a task. The same key starts it once."""
    workspace_id = authorise(principal, "run")
    params = read_input(TaskParams, fields)
    if params.prompt or params.agent:
        _check_agent(workspace_id, params.agent)
    return _start(principal, workspace_id, EXECUTE, params, key)


def start_session(principal: Principal, fields: dict[str, Any], key: str | None) -> Workflow:
    """Start the workflow that creates a session."""
    workspace_id = authorise(principal, "run")
    params = read_input(SessionParams, fields)
    _check_agent(workspace_id, params.agent)
    return _start(principal, workspace_id, CREATE, params, key)


def _start(
    principal: Principal,
    workspace_id: UUID,
    name: str,
    params: TaskParams | SessionParams,
    key: str | None,
) -> Workflow:
    if params.environment:
        try:
            environment = find_environment(workspace_id, params.environment)
        except NotFound as fault:
            raise wrong_field("environment", fault.detail) from None
        authorise_choice(principal, environment, _usual_environment(workspace_id, params))
    payers = (principal.user_id, principal.key_id)
    check_purses(workspace_id, [owner for owner in payers if owner])
    fields = params.model_dump(mode="json", exclude_unset=True)
    return start_as(principal, name, fields, key=key)[0]


def chosen_agent(workspace_id: UUID, ref: str) -> Agent:
    """Return the agent of this name or id; without one, the oldest of the workspace."""
    if ref:
        return find_agent(workspace_id, ref)
    agents = Agent.objects.for_workspace(workspace_id).active().select_related("current")
    if found := agents.order_by("created_at").first():
        return found
    raise NotFound("This workspace has no agent.")


def _usual_environment(workspace_id: UUID, params: TaskParams | SessionParams) -> UUID | None:
    try:
        current = chosen_agent(workspace_id, params.agent).current
    except (NotFound, Conflict):
        return None
    return current.environment_id if current else None


def starter_of(event: Event) -> Principal | None:
    """Return the key or user that started a workflow, with the rights of now; None if neither did."""
    key_id = Workflow.objects.values_list("key_id", flat=True).get(pk=event.id)
    if key_id:
        key = ApiKey.objects.valid().select_related("created_by").filter(pk=key_id).first()
        return principal_of_key(key) if key else ANONYMOUS
    user = User.objects.filter(pk=event.created_by_id).first() if event.created_by_id else None
    return principal_of_user(user, event.workspace_id) if user else None


def _check_agent(workspace_id: UUID, ref: str) -> None:
    """Raise for an unknown agent now, instead of starting a workflow that fails."""
    try:
        chosen_agent(workspace_id, ref)
    except (NotFound, Conflict) as fault:
        raise wrong_field("agent", fault.detail) from None
