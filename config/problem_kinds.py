"""Turns any exception that a client may hear about into one shape, the Problem of RFC 9457."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypedDict

import pydantic
from django.core import exceptions as django_errors
from django.db import InterfaceError, OperationalError
from django.http import Http404
from django.http.multipartparser import MultiPartParserError
from rest_framework import exceptions as rest_errors

from config.faults import Fault

CHALLENGE = 'Bearer realm="switchyard"'


class FieldError(TypedDict):
    """One thing that is wrong with the input. An empty field means the whole of it."""

    field: str
    pointer: str
    message: str
    code: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What the client is told."""

    status: int
    code: str
    title: str
    detail: str
    errors: list[FieldError] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    #: Members of this kind of problem only, such as the version that a stale write lost to.
    extra: dict[str, object] = field(default_factory=dict)


UNEXPECTED = Problem(
    status=500,
    code="unexpected",
    title="Unexpected error",
    detail="Something went wrong on our side. It was recorded under the request's id.",
)


def problem_of(error: BaseException) -> Problem | None:
    """The problem behind an exception; None for one that nobody raised on purpose."""
    match error:
        case Fault():
            return _of_fault(error)
        case rest_errors.APIException():
            return _of_rest(error)
        case pydantic.ValidationError():
            found = [_field_error(e["loc"], e["msg"], e["type"]) for e in error.errors()]
            return _plain(400, "invalid", "The input is not valid.", errors=found)
        case django_errors.ValidationError():
            return _plain(400, "invalid", "The input is not valid.", errors=list(_of_django(error)))
        case OperationalError() | InterfaceError():
            return _plain(
                503,
                "unavailable",
                "The database cannot be reached or is busy. Try again in a moment.",
                headers={"Retry-After": "1"},
            )
        case _:
            return _of_refusal(error)


def _of_refusal(error: BaseException) -> Problem | None:
    """What Django itself says no to."""
    match error:
        case Http404():
            return _plain(404, "not_found", "There is no such thing, or it is not yours to see.")
        case django_errors.PermissionDenied():
            return _plain(403, "forbidden", "This identity may not do that here.")
        case django_errors.RequestDataTooBig():
            return _plain(413, "too_large", "The request is larger than this server accepts.")
        case MultiPartParserError() | django_errors.BadRequest():
            return _plain(400, "malformed", "The request cannot be read.")
        case django_errors.SuspiciousOperation():
            return _plain(400, "refused", "The request was refused.")
        case _:
            return None


def _of_fault(fault: Fault) -> Problem:
    headers = {"WWW-Authenticate": CHALLENGE} if fault.status == 401 else {}
    wait = getattr(fault, "retry_after", None)
    if wait is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(fault).__name__)
    return Problem(
        status=fault.status,
        code=fault.code,
        title=words.capitalize(),
        detail=fault.detail,
        errors=getattr(fault, "errors", []),
        headers=headers,
        extra=getattr(fault, "extra", {}),
    )


def _of_rest(error: rest_errors.APIException) -> Problem:
    headers: dict[str, str] = {}
    if error.status_code == 401:
        headers["WWW-Authenticate"] = getattr(error, "auth_header", CHALLENGE)
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    if isinstance(error, rest_errors.ValidationError):
        found = list(_flatten(error.get_full_details()))
        return _plain(400, "invalid", "The input is not valid.", errors=found)
    codes = error.get_codes()
    code = codes if isinstance(codes, str) else "refused"
    known = {"parse_error": "malformed", "not_authenticated": "unauthenticated"}
    code = {**known, "permission_denied": "forbidden"}.get(code, code)
    return _plain(error.status_code, code, str(error.detail), headers=headers)


def _plain(
    status: int,
    code: str,
    detail: str,
    *,
    errors: list[FieldError] | None = None,
    headers: dict[str, str] | None = None,
) -> Problem:
    title = "Invalid" if code == "invalid" else HTTPStatus(status).phrase
    return Problem(
        status=status,
        code=code,
        title=title,
        detail=detail,
        errors=errors or [],
        headers=headers or {},
    )


def _flatten(details: object, at: tuple[str | int, ...] = ()) -> Iterator[FieldError]:
    """Every message in the nested lists and dictionaries of a REST framework error."""
    if isinstance(details, Mapping):
        if set(details) == {"message", "code"} and not isinstance(details["message"], dict | list):
            yield _field_error(at, str(details["message"]), str(details["code"]))
            return
        for name, inner in details.items():
            yield from _flatten(inner, at if name == "non_field_errors" else (*at, name))
    elif isinstance(details, list):
        # A list of messages belongs to one field; a list of dictionaries is a list of items.
        items = not all(isinstance(inner, Mapping) and "message" in inner for inner in details)
        for place, inner in enumerate(details):
            yield from _flatten(inner, (*at, place) if items else at)


def _of_django(error: django_errors.ValidationError) -> Iterator[FieldError]:
    by_field = error.error_dict if hasattr(error, "error_dict") else {"": error.error_list}
    for name, errors in by_field.items():
        at = (name,) if name not in ("", django_errors.NON_FIELD_ERRORS) else ()
        for one in errors:
            yield _field_error(at, " ".join(one.messages), str(one.code or "invalid"))


def _field_error(at: tuple[str | int, ...], message: str, code: str) -> FieldError:
    escaped = [str(part).replace("~", "~0").replace("/", "~1") for part in at]
    return FieldError(
        field=".".join(str(part) for part in at),
        pointer="#" + "".join(f"/{part}" for part in escaped),
        message=message,
        code=code,
    )
