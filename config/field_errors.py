"""What is wrong with the fields of an input, in one shape and in plain words, whoever found it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypedDict

import pydantic
from django.core import exceptions as django_errors

Place = tuple[str | int, ...]

#: Pydantic names types of Python; whoever calls over HTTP knows those of JSON.
PLAIN_WORDS = {
    "missing": "This field is required.",
    "extra_forbidden": "There is no such field here.",
    "model_type": "This must be an object.",
    "model_attributes_type": "This must be an object.",
    "dict_type": "This must be an object.",
    "dataclass_type": "This must be an object.",
    "list_type": "This must be a list.",
    "tuple_type": "This must be a list.",
    "set_type": "This must be a list.",
    "frozen_set_type": "This must be a list.",
    "string_type": "This must be a string.",
    "uuid_type": "This must be an id.",
    "uuid_parsing": "This must be an id.",
    "string_unicode": "This must be a string of valid Unicode.",
}


class FieldError(TypedDict):
    """One thing that is wrong with the input. An empty field means the whole of it."""

    field: str
    pointer: str
    message: str
    code: str


def field_error(at: Place, message: str, code: str) -> FieldError:
    escaped = [str(part).replace("~", "~0").replace("/", "~1") for part in at]
    return FieldError(
        field=".".join(str(part) for part in at),
        pointer="#" + "".join(f"/{part}" for part in escaped),
        message=message,
        code=code,
    )


def told(errors: Iterable[FieldError], otherwise: str = "The input is not valid.") -> str:
    """All of it in one line, for whoever reads no list."""
    said = [f"{e['field']}: {e['message']}" if e["field"] else e["message"] for e in errors]
    return "; ".join(said) or otherwise


def of_pydantic(error: pydantic.ValidationError) -> Iterator[FieldError]:
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        # Pydantic puts words of its own before those of a validator.
        message = PLAIN_WORDS.get(one["type"], one["msg"].removeprefix("Value error, "))
        yield field_error(one["loc"], message, one["type"])


def of_rest(details: object, at: Place = ()) -> Iterator[FieldError]:
    """Every message in the nested lists and dictionaries of a REST framework error."""
    if isinstance(details, Mapping):
        if set(details) == {"message", "code"} and not isinstance(details["message"], dict | list):
            yield field_error(at, str(details["message"]), str(details["code"]))
            return
        for name, inner in details.items():
            yield from of_rest(inner, at if name == "non_field_errors" else (*at, name))
    elif isinstance(details, list):
        # A list of messages belongs to one field; a list of dictionaries is a list of items.
        items = not all(isinstance(inner, Mapping) and "message" in inner for inner in details)
        for place, inner in enumerate(details):
            yield from of_rest(inner, (*at, place) if items else at)


def of_django(error: django_errors.ValidationError) -> Iterator[FieldError]:
    by_field = error.error_dict if hasattr(error, "error_dict") else {"": error.error_list}
    for name, errors in by_field.items():
        at = (name,) if name not in ("", django_errors.NON_FIELD_ERRORS) else ()
        for one in errors:
            yield field_error(at, " ".join(one.messages), str(one.code or "invalid"))
