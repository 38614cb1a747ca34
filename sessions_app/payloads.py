"""What people and programs may put into a session, checked before it reaches the log."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from config.faults import Invalid, InvalidFields
from config.field_errors import of_pydantic, told
from sessions_app.models import SessionEvent

E = SessionEvent.Type
LONGEST_TEXT = 200_000


class Payload(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Attachment(Payload):
    name: str = Field(max_length=255)
    path: str = Field(max_length=1000)
    media_type: str = Field(default="", max_length=100)
    size: int = Field(default=0, ge=0)


class UserMessage(Payload):
    text: str = Field(max_length=LONGEST_TEXT)
    attachments: list[Attachment] = Field(default=[], max_length=20)

    @field_validator("text")
    @classmethod
    def not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("A message needs text.")
        return text


class MessageEdited(Payload):
    seq: int = Field(ge=1)
    text: str = Field(min_length=1, max_length=LONGEST_TEXT)


class MessageWithdrawn(Payload):
    seq: int = Field(ge=1)


class Interrupt(Payload):
    note: str = Field(default="", max_length=2000)
    #: Only what was meant is stopped: a stop that comes late finds another run.
    run_id: UUID | None = None


class ToolConfirmation(Payload):
    tool_use_id: str = Field(max_length=64)
    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "always"] = "once"
    note: str = Field(default="", max_length=2000)
    input: dict[str, Any] | None = None


class CustomToolResult(Payload):
    tool_use_id: str = Field(max_length=64)
    output: Any = None
    is_error: bool = False


SHAPES: dict[str, type[Payload]] = {
    E.USER_MESSAGE: UserMessage,
    E.USER_MESSAGE_EDITED: MessageEdited,
    E.USER_MESSAGE_WITHDRAWN: MessageWithdrawn,
    E.USER_INTERRUPT: Interrupt,
    E.USER_TOOL_CONFIRMATION: ToolConfirmation,
    E.USER_CUSTOM_TOOL_RESULT: CustomToolResult,
}


def parse(type: str, payload: object) -> Payload:
    """The payload of a `user.*` event, or an error that says what is wrong with it."""
    shape = SHAPES.get(type)
    if shape is None:
        raise Invalid(f"{type!r} cannot be sent. Send one of {', '.join(SHAPES)}.")
    try:
        return shape.model_validate(payload)
    except ValidationError as error:
        found = list(of_pydantic(error))
        placed = [
            {**one, "field": f"payload.{one['field']}", "pointer": f"#/payload{one['pointer'][1:]}"}
            for one in found
        ]
        raise InvalidFields(
            f"The payload of {type} is not valid: {told(found)}", errors=placed
        ) from None
