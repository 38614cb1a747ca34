"""Reads the lines of an export: each must be an event that every view of a log can show."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from config.faults import Invalid
from sessions_app.models import SessionEvent

E = SessionEvent.Type


class Shape(BaseModel):
    """What views rely on. More is allowed, and kept."""

    model_config = ConfigDict(extra="allow", strict=True)


class Words(Shape):
    text: str
    provider_state: str | None = None


class Attached(Shape):
    name: str
    path: str


class Message(Words):
    attachments: list[Attached] = []


class Edit(Shape):
    seq: int
    text: str


class Withdrawal(Shape):
    seq: int


class Call(Shape):
    tool_use_id: str
    name: str
    input: dict[str, Any]
    provider_state: str | None = None


class Result(Shape):
    tool_use_id: str
    name: str
    state: str


class Criterion(Shape):
    name: str
    met: bool
    why: str


class Judged(Shape):
    status: str
    criteria: list[Criterion] = []


class ChildIdle(Shape):
    child_session_id: str
    status: str
    result: str
    title: str = ""
    tool_use_id: str = ""
    shown: bool = False


SHAPES: dict[str, type[Shape]] = {
    E.USER_MESSAGE: Message,
    E.AGENT_MESSAGE: Words,
    E.USER_MESSAGE_EDITED: Edit,
    E.USER_MESSAGE_WITHDRAWN: Withdrawal,
    E.AGENT_TOOL_USE: Call,
    E.AGENT_CUSTOM_TOOL_USE: Call,
    E.AGENT_TOOL_RESULT: Result,
    E.OUTCOME_JUDGED: Judged,
    E.CHILD_IDLE: ChildIdle,
}


class ImportedEvent(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: E
    payload: dict[str, Any]
    created_at: AwareDatetime | None = None
    processed_at: AwareDatetime | None = None


def read_line(number: int, line: bytes) -> dict[str, Any]:
    """The event on this line, or a complaint that names the line."""
    try:
        event = ImportedEvent.model_validate_json(line)
        SHAPES.get(event.type, Shape).model_validate(event.payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        said = f"{where}: {first['msg']}" if where else first["msg"]
        raise Invalid(f"Line {number} is not an event: {said}.") from None
    try:
        orjson.dumps(event.payload)
    except TypeError as error:
        raise Invalid(f"Line {number} cannot be stored: {error}.") from None
    return event.model_dump(mode="json")
