"""Validates input from clients and describes what is wrong with its fields in one shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict, TypeVar

import orjson
import pydantic
from django import forms
from django.core import exceptions as django_exceptions
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from core.exceptions import Conflict, Fault, Invalid, InvalidFields

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
#: Where in the input a field is: names of fields and indexes of lists.
Location = tuple[str | int, ...]

# ── Input models ─────────────────────────────────────────────────────────────


class Input(BaseModel):
    """Fields from a client. Unknown fields are errors, so that a typo is not silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def read_input(model: type[M], fields: object) -> M:
    """Validate the fields with this model, or raise InvalidFields that names each wrong one."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise _invalid(list(pydantic_errors(error))) from None


def wrong_field(field: str, message: str) -> InvalidFields:
    """Return the fault for one field that only the database could find to be wrong."""
    return _invalid([field_error((field,), message, "invalid")])


@contextmanager
def errors_under(part: str) -> Iterator[None]:
    """Prefix the fields of an InvalidFields with the part of the body that the client wrote."""
    try:
        yield
    except InvalidFields as fault:
        if not fault.errors:
            raise
        raise _invalid([_prefixed(part, dict(error)) for error in fault.errors]) from None


def _prefixed(part: str, error: dict[str, Any]) -> FieldError:
    field, pointer = error["field"], error["pointer"].removeprefix("#")
    return FieldError(
        field=f"{part}.{field}" if field else part,
        pointer=f"#/{part}{pointer}",
        message=error["message"],
        code=error["code"],
    )


def _invalid(errors: list[FieldError]) -> InvalidFields:
    # The detail contains every error, for clients that show no list.
    return InvalidFields(describe_errors(errors), errors=errors)


def merge_fields(current: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields after a change. `limits` are merged too, and null resets a limit."""
    fields = {**current, **changes}
    limits = changes.get("limits")
    if isinstance(limits, Mapping):
        both = {**current.get("limits", {}), **limits}
        fields["limits"] = {name: value for name, value in both.items() if value is not None}
    return fields


def read_change(model: type[M], row: object, changes: Mapping[str, Any], *, replace: bool) -> M:
    """Return the validated fields after a change; with `replace`, unnamed fields get their default."""
    if replace:
        return read_input(model, changes)
    current = {name: getattr(row, name) for name in model.model_fields}
    return read_input(model, merge_fields(current, changes))


# ── Field errors ─────────────────────────────────────────────────────────────

#: Pydantic's messages name types of Python; HTTP clients know those of JSON.
MESSAGES = {
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
    """One error in the input. An empty field means the whole input."""

    field: str
    pointer: str
    message: str
    code: str


def field_error(location: Location, message: str, code: str) -> FieldError:
    escaped = [str(part).replace("~", "~0").replace("/", "~1") for part in location]
    return FieldError(
        field=".".join(str(part) for part in location),
        pointer="#" + "".join(f"/{part}" for part in escaped),
        message=message,
        code=code,
    )


def describe_errors(
    errors: Iterable[FieldError], otherwise: str = "The input is not valid."
) -> str:
    """Join all errors into one line, for clients that show no list."""
    lines = [f"{e['field']}: {e['message']}" if e["field"] else e["message"] for e in errors]
    return "; ".join(lines) or otherwise


def pydantic_errors(error: pydantic.ValidationError) -> Iterator[FieldError]:
    """Yield every error of a pydantic model."""
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        # Pydantic puts a prefix before the message of a validator.
        message = MESSAGES.get(each["type"], each["msg"].removeprefix("Value error, "))
        yield field_error(each["loc"], message, each["type"])


def rest_errors(details: object, location: Location = ()) -> Iterator[FieldError]:
    """Yield every message in the nested lists and dictionaries of a REST framework error."""
    if isinstance(details, Mapping):
        if set(details) == {"message", "code"} and not isinstance(details["message"], dict | list):
            yield field_error(location, str(details["message"]), str(details["code"]))
            return
        for name, inner in details.items():
            whole = name == "non_field_errors"
            yield from rest_errors(inner, location if whole else (*location, name))
    elif isinstance(details, list):
        # A list of messages belongs to one field; a list of dictionaries is a list of items.
        items = not all(isinstance(inner, Mapping) and "message" in inner for inner in details)
        for index, inner in enumerate(details):
            yield from rest_errors(inner, (*location, index) if items else location)


def django_errors(error: django_exceptions.ValidationError) -> Iterator[FieldError]:
    """Yield every error of a Django form or model."""
    by_field = error.error_dict if hasattr(error, "error_dict") else {"": error.error_list}
    for name, errors in by_field.items():
        location = (name,) if name not in ("", django_exceptions.NON_FIELD_ERRORS) else ()
        for each in errors:
            yield field_error(location, " ".join(each.messages), str(each.code or "invalid"))


def submit_form(form: forms.Form, act: Callable[[], T]) -> T | None:
    """Call `act` if the form is valid and return its result.

    Return None when the form is not valid or `act` refused it; the form then shows why.
    """
    if not form.is_valid():
        return None
    try:
        return act()
    except (Invalid, Conflict) as fault:
        add_form_errors(form, fault)
        return None


def add_form_errors(form: forms.Form, fault: Fault) -> None:
    """Show each error beside its field, and errors without a field above the form."""
    errors = fault.errors if isinstance(fault, InvalidFields) else []
    for error in errors:
        name, message = str(error.get("field", "")).partition(".")[0], str(error.get("message", ""))
        if name in form.fields:
            form.add_error(name, message)
        else:
            form.add_error(None, f"{name.capitalize()}: {message}" if name else message)
    if not errors:
        about_name = fault.code == "conflict" and "name" in form.fields
        form.add_error("name" if about_name else None, fault.detail)


# ── What PostgreSQL can store ────────────────────────────────────────────────

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
UNFIT = "This cannot be stored: it contains NUL, is nested too deeply or has too large a number."
#: The deepest nesting of JSON in the log. Encoders refuse 255 levels, and payloads are wrapped.
MAX_DEPTH = 100


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store the text: no NUL and no lone surrogate."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False


def _check_storable(text: str) -> str:
    if not is_storable(text):
        raise ValueError("Text cannot contain NUL or half of a surrogate pair.")
    return text


#: Refuses text that PostgreSQL cannot store.
STORABLE = AfterValidator(_check_storable)


def storable(text: str) -> str:
    """Replace NUL and lone surrogates, which PostgreSQL refuses, by U+FFFD.

    Two surrogates that form a character become that character.
    """
    if not _UNSTORABLE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", "\ufffd")


def storable_json(value: Any) -> Any:
    """Make every text in a JSON value storable, including the keys of objects."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(item) for item in value]
    return value


def fit_json(value: Any) -> Any:
    """Return a value as the log holds it: storable text, lists, objects and numbers of JSON.

    Raise ValueError, which says why, for what JSON cannot hold and for deep nesting.
    """
    _check_depth(value, MAX_DEPTH)
    try:
        return orjson.loads(orjson.dumps(storable_json(value)))
    except TypeError as error:
        raise ValueError(str(error)) from None


def _check_depth(value: Any, levels: int) -> None:
    if not isinstance(value, dict | list | tuple):
        return
    if not levels:
        raise ValueError(f"It is nested more than {MAX_DEPTH} levels deep.")
    for item in value.values() if isinstance(value, dict) else value:
        _check_depth(item, levels - 1)


def _fit(value: Any) -> Any:
    try:
        return fit_json(value)
    except ValueError:
        raise ValueError(UNFIT) from None


#: Makes the text in JSON storable, and refuses JSON that the log cannot hold.
FITTING = AfterValidator(_fit)


def can_be_stored(value: Any) -> bool:
    """Return whether PostgreSQL stores this JSON unchanged: no NUL, no deep nesting, no huge number."""
    try:
        fit_json(value)
    except ValueError:
        return False
    return bool(storable_json(value) == value)
