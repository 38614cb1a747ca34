"""Reads untrusted fields with pydantic, and says as a fault what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from config.faults import InvalidFields
from config.field_errors import FieldError, field_error, of_pydantic, told

M = TypeVar("M", bound=BaseModel)


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold this text: no NUL, and no half of a surrogate pair."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False


def _storable(text: str) -> str:
    if not is_storable(text):
        raise ValueError("Text cannot hold the character NUL or half of a surrogate pair.")
    return text


#: Refuses what PostgreSQL cannot store.
STORABLE = AfterValidator(_storable)


class Input(BaseModel):
    """Fields from outside. A misspelt one is an error, not a silent loss."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def read_input(model: type[M], fields: object) -> M:
    """The fields as this model wants them, or a fault that names each wrong one."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise _fault(list(of_pydantic(error))) from None


def wrong_field(field: str, message: str) -> InvalidFields:
    """The fault for one field that only the database could tell to be wrong."""
    return _fault([field_error((field,), message, "invalid")])


@contextmanager
def inside(part: str) -> Iterator[None]:
    """What is wrong with this part of a body is told of where the client wrote it."""
    try:
        yield
    except InvalidFields as fault:
        if not fault.errors:
            raise
        raise _fault([_moved(part, dict(error)) for error in fault.errors]) from None


def _moved(part: str, error: dict[str, Any]) -> FieldError:
    field, pointer = error["field"], error["pointer"].removeprefix("#")
    return FieldError(
        field=f"{part}.{field}" if field else part,
        pointer=f"#/{part}{pointer}",
        message=error["message"],
        code=error["code"],
    )


def _fault(errors: list[FieldError]) -> InvalidFields:
    # The detail alone tells all of it, for doors that show no list.
    return InvalidFields(told(errors), errors=errors)


def merged(current: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields after a change. In `limits`, what is not named stays and null is the default."""
    fields = {**current, **changes}
    limits = changes.get("limits")
    if isinstance(limits, Mapping):
        both = {**current.get("limits", {}), **limits}
        fields["limits"] = {name: value for name, value in both.items() if value is not None}
    return fields
