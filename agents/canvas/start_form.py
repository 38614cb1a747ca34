"""The start form of a canvas: which input a run needs, as a small JSON Schema on its trigger.

Only these keywords are read, so checking an input takes time that grows with its size alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from core.validation import STORABLE, Input

MOST_FIELDS = 50

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,39}$")]
Short = Annotated[str, Field(max_length=300), STORABLE]
FieldType = Literal["string", "number", "integer", "boolean", "array", "object"]


class FormField(Input):
    """One field of the form."""

    type: FieldType = "string"
    title: Short = ""
    description: Short = ""
    enum: Annotated[list[str | float | bool], Field(max_length=200)] | None = None
    default: Any = None


class StartForm(Input):
    """The fields of an input, by name."""

    type: Literal["object"] = "object"
    properties: Annotated[dict[Name, FormField], Field(max_length=MOST_FIELDS)] = {}
    required: Annotated[list[Name], Field(max_length=MOST_FIELDS)] = []


def form_fault(schema: object) -> str:
    """Return what is wrong with a start form, or an empty string."""
    if schema is None:
        return ""
    try:
        StartForm.model_validate(schema)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        return f"The start form is not valid: {where}: {fault['msg']}."
    return ""


def input_faults(schema: object, given: object) -> list[tuple[str, str]]:
    """Return the fields of an input that do not fit the form, each with a message."""
    if schema is None or form_fault(schema):
        return []
    form = StartForm.model_validate(schema)
    if not form.properties:
        return []
    if given is not None and not isinstance(given, dict):
        return [("", "The input must be an object with the fields of the start form.")]
    values = given or {}
    missing = [
        (name, f"{form.properties[name].title or name} is required.")
        for name in form.required
        if name in form.properties and values.get(name) in (None, "")
    ]
    wrong = [
        (name, f"{field.title or name} must be {_words(field)}.")
        for name, field in form.properties.items()
        if values.get(name) not in (None, "") and not _fits(field, values[name])
    ]
    return [*missing, *wrong]


_CHECKS: dict[FieldType, tuple[str, Callable[[Any], bool]]] = {
    "string": ("text", lambda value: isinstance(value, str)),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "integer": ("a whole number", lambda value: type(value) is int),
    "boolean": ("yes or no", lambda value: isinstance(value, bool)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
}


def _fits(field: FormField, value: object) -> bool:
    if field.enum is not None:
        return any(type(one) is type(value) and one == value for one in field.enum)
    return _CHECKS[field.type][1](value)


def _words(field: FormField) -> str:
    if field.enum is not None:
        return f"one of {', '.join(str(one) for one in field.enum)}"
    return _CHECKS[field.type][0]
