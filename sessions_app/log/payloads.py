"""Validates the payloads of `user.*` events before they reach the log."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from agents.definitions import (
    EffortName,
    MaxTokens,
    ModelName,
    Prompt,
    ProviderName,
    ResponseSchema,
    Temperature,
)
from core.exceptions import Invalid, InvalidFields
from core.validation import FITTING, Input, describe_errors, pydantic_errors
from sessions_app.models import SessionEvent
from tools_app.files import is_inside_workspace
from tools_app.parts import MAX_FILE_BYTES
from tools_app.policy.storage import Rules
from tools_app.workspace_tools import ClientTool

EventType = SessionEvent.Type
MAX_TEXT_LENGTH = 200_000
#: Characters of all tools that a client declares for a run.
MAX_CLIENT_TOOLS = 200_000


class Payload(BaseModel):
    model_config = ConfigDict(extra="forbid")


def check_attached_path(path: str) -> str:
    """Return the path of an attached file, or raise: pages link to it below the session's files."""
    if not is_inside_workspace(path):
        raise ValueError("The path must be within the session's files, without `..`.")
    return path


#: Characters of a data URL: as many as the largest file has in base64.
MAX_DATA_URL = MAX_FILE_BYTES * 4 // 3 + 200


class Attachment(Payload):
    """A file of the session, by its path, or one that comes with the message: by the id of an upload
    or as a data URL.
    """

    name: str = Field(default="", max_length=255)
    path: str = Field(default="", max_length=1000)
    media_type: str = Field(default="", max_length=100)
    size: int = Field(default=0, ge=0)
    type: Literal["image", "file"] | None = None
    file_id: str = Field(default="", max_length=80)
    url: str = Field(default="", max_length=MAX_DATA_URL, repr=False)
    data: str = Field(default="", max_length=MAX_DATA_URL, repr=False)

    @field_validator("path")
    @classmethod
    def within_the_files(cls, path: str) -> str:
        return check_attached_path(path) if path else path

    @model_validator(mode="after")
    def is_one_file(self) -> Attachment:
        if sum(map(bool, (self.path, self.file_id, self.url, self.data))) != 1:
            raise ValueError("Name one of `path`, `file_id`, `url` and `data`.")
        if self.path and not self.name:
            raise ValueError("A file of the session needs its `name`.")
        if self.url and not self.url.startswith("data:"):
            raise ValueError("A `url` must be a data URL: other addresses are not fetched.")
        return self


class RunOverrides(Input):
    """What one run does differently from its agent. Whatever is left out stays as the agent has it."""

    provider: ProviderName | None = None
    model: ModelName | None = None
    system_prompt: Prompt | None = None
    #: Replacing the agent's instructions needs the right to build.
    system_prompt_mode: Literal["append", "replace"] | None = None
    #: Names, groups and rules of a policy. They can only narrow what the policy allows.
    tools: Rules | None = None
    max_tokens: MaxTokens | None = None
    temperature: Temperature | None = None
    effort: EffortName | None = None
    response_schema: ResponseSchema | None = None
    #: Tools that the sender runs itself; see `user.custom_tool_result`.
    client_tools: Annotated[list[ClientTool], Field(max_length=128)] | None = None

    @field_validator("client_tools")
    @classmethod
    def not_too_long(cls, declared: list[ClientTool] | None) -> list[ClientTool] | None:
        if declared and sum(len(one.model_dump_json()) for one in declared) > MAX_CLIENT_TOOLS:
            raise ValueError(f"These tools have more than {MAX_CLIENT_TOOLS:,} characters.")
        return declared

    @model_validator(mode="after")
    def mode_has_a_prompt(self) -> RunOverrides:
        if self.system_prompt_mode and self.system_prompt is None:
            raise ValueError("`system_prompt_mode` needs a `system_prompt`.")
        return self


class UserMessage(Payload):
    text: str = Field(max_length=MAX_TEXT_LENGTH)
    attachments: list[Attachment] = Field(default=[], max_length=20)
    #: Its run keeps them, unless the message joins a run that exists already.
    overrides: RunOverrides | None = None

    @field_validator("text")
    @classmethod
    def not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("A message needs text.")
        return text


class MessageEdited(Payload):
    seq: int = Field(ge=1)
    text: str = Field(min_length=1, max_length=MAX_TEXT_LENGTH)


class MessageWithdrawn(Payload):
    seq: int = Field(ge=1)


class Interrupt(Payload):
    note: str = Field(default="", max_length=2000)
    #: Stop only this run. Without it, a stop that comes late could stop another run.
    run_id: UUID | None = None


class ToolConfirmation(Payload):
    tool_use_id: str = Field(max_length=64)
    decision: Literal["allow", "deny", "answer"]
    scope: Literal["once", "session", "always"] = "once"
    note: str = Field(default="", max_length=2000)
    input: Annotated[dict[str, Any] | None, FITTING] = None
    #: The answers to a question, by field.
    values: Annotated[dict[str, Any] | None, FITTING] = None


class CustomToolResult(Payload):
    tool_use_id: str = Field(max_length=64)
    output: Annotated[Any, FITTING] = None
    is_error: bool = False


PAYLOADS: dict[str, type[Payload]] = {
    EventType.USER_MESSAGE: UserMessage,
    EventType.USER_MESSAGE_EDITED: MessageEdited,
    EventType.USER_MESSAGE_WITHDRAWN: MessageWithdrawn,
    EventType.USER_INTERRUPT: Interrupt,
    EventType.USER_TOOL_CONFIRMATION: ToolConfirmation,
    EventType.USER_CUSTOM_TOOL_RESULT: CustomToolResult,
}


def parse(type: str, payload: object) -> Payload:
    """Return the validated payload of a `user.*` event, or raise an error that names each problem."""
    payload_type = PAYLOADS.get(type)
    if payload_type is None:
        raise Invalid(f"{type!r} cannot be sent. Send one of {', '.join(PAYLOADS)}.")
    try:
        return payload_type.model_validate(payload)
    except ValidationError as error:
        problems = list(pydantic_errors(error))
        errors = [
            {**p, "field": f"payload.{p['field']}", "pointer": f"#/payload{p['pointer'][1:]}"}
            for p in problems
        ]
        raise InvalidFields(
            f"The payload of {type} is not valid: {describe_errors(problems)}", errors=errors
        ) from None
