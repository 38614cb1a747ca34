"""What a task may be told, checked before anything starts."""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Any, Self

from pydantic import AliasChoices, Field, field_validator, model_validator

from agents.inputs import STORABLE, Input
from config.faults import ToolFailed
from tools_app.files import split

DAY = 86_400
MOST_FILES = 100
#: All files together; the params as a whole have at most 1 MiB.
MOST_FILE_BYTES = 768 * 1024
Text = Annotated[str, Field(max_length=100_000), STORABLE]
Name = Annotated[str, Field(max_length=80), STORABLE]


class TaskFile(Input):
    """A file that the task finds in its workspace, as text or in base64."""

    path: Annotated[str, Field(min_length=1, max_length=500), STORABLE]
    text: Annotated[str, STORABLE] | None = Field(
        default=None, validation_alias=AliasChoices("text", "content")
    )
    base64: str | None = None

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        try:
            names = split(path)
        except ToolFailed as fault:
            raise ValueError(fault.detail) from None
        if not names:
            raise ValueError("The path of a file has a name.")
        return "/".join(names)

    @model_validator(mode="after")
    def _has_one_content(self) -> Self:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("A file has either text or base64.")
        self.content  # noqa: B018 (whoever cannot be decoded says so here)
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
        description="Its name or id. It answers a prompt; a command runs in its environment.",
    )
    environment: Name = Field(default="", title="Environment", description="Its name or id.")
    timeout: int = Field(default=600, ge=1, le=DAY, title="Most seconds")
    approval: bool = Field(default=False, title="Ask a person first")
    keep_seconds: int = Field(
        default=0,
        ge=0,
        le=30 * DAY,
        title="Keep the sandbox for so many seconds",
        description="What a command left in its workspace stays so long; its artifacts stay.",
    )
    files: list[TaskFile] = Field(default=[], max_length=MOST_FILES, title="Files")

    @field_validator("command", "prompt", "agent", "environment", mode="before")
    @classmethod
    def _no_word_is_empty(cls, given: Any) -> Any:
        return "" if given is None else given

    @field_validator("files", mode="before")
    @classmethod
    def _no_list_is_empty(cls, given: Any) -> Any:
        """Texts by their paths will do, too."""
        if isinstance(given, dict):
            return [{"path": path, "text": text} for path, text in given.items()]
        return [] if given is None else given

    @model_validator(mode="after")
    def _asks_for_one_thing(self) -> Self:
        if bool(self.command.strip()) == bool(self.prompt.strip()):
            raise ValueError("A task has either a command or a prompt.")
        if sum(len(file.content) for file in self.files) > MOST_FILE_BYTES:
            raise ValueError(f"The files have at most {MOST_FILE_BYTES:,} bytes together.")
        if len({file.path for file in self.files}) < len(self.files):
            raise ValueError("Two of the files have the same path.")
        return self


class SessionParams(Input):
    """A session to be made."""

    agent: Name = Field(default="", title="Agent")
    environment: Name = Field(default="", title="Environment")
    title: Annotated[str, Field(max_length=200), STORABLE] = Field(default="", title="Title")
    session_key: Annotated[str, Field(max_length=200), STORABLE] = Field(default="", title="Key")

    @field_validator("*", mode="before")
    @classmethod
    def _no_word_is_empty(cls, given: Any) -> Any:
        return "" if given is None else given
