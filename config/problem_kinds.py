"""Turns any exception that a client may hear about into one shape, the Problem of RFC 9457."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pydantic
from django.core import exceptions as django_errors
from django.db import InterfaceError, OperationalError
from django.http import Http404
from django.http.multipartparser import MultiPartParserError
from rest_framework import exceptions as rest_errors

from config.faults import Fault
from config.field_errors import FieldError, of_django, of_pydantic, of_rest, told

CHALLENGE = 'Bearer realm="switchyard"'


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What the client is told."""

    status: int
    code: str
    detail: str
    errors: list[FieldError] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    #: Members of this kind of problem only, such as the version that a stale write lost to.
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The same for every problem of its code, whoever found it."""
        return self.code.replace("_", " ").capitalize()


UNEXPECTED = Problem(
    status=500,
    code="unexpected",
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
            return _invalid(list(of_pydantic(error)))
        case django_errors.ValidationError():
            return _invalid(list(of_django(error)))
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
        case RecursionError():
            # Python's reader of JSON gives up so; nothing else here goes deep by itself.
            return _plain(400, "malformed", "The request is nested too deeply.")
        case django_errors.SuspiciousOperation():
            return _plain(400, "refused", "The request was refused.")
        case _:
            return None


def _of_fault(fault: Fault) -> Problem:
    headers = {"WWW-Authenticate": CHALLENGE} if fault.status == 401 else {}
    wait = getattr(fault, "retry_after", None)
    if wait is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    return Problem(
        status=fault.status,
        code=fault.code,
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
        return _invalid(list(of_rest(error.get_full_details())))
    codes = error.get_codes()
    code = codes if isinstance(codes, str) else "refused"
    known = {"parse_error": "malformed", "not_authenticated": "unauthenticated"}
    code = {**known, "permission_denied": "forbidden"}.get(code, code)
    return _plain(error.status_code, code, _said(error), headers=headers)


def _said(error: rest_errors.APIException) -> str:
    """The framework's words, and what to do instead where it does not say so."""
    if isinstance(error, rest_errors.MethodNotAllowed):
        return f"{error.detail} The header Allow of this answer names those that are."
    return str(error.detail)


def _invalid(errors: list[FieldError]) -> Problem:
    return _plain(400, "invalid", told(errors), errors=errors)


def _plain(
    status: int,
    code: str,
    detail: str,
    *,
    errors: list[FieldError] | None = None,
    headers: dict[str, str] | None = None,
) -> Problem:
    return Problem(
        status=status,
        code=code,
        detail=detail,
        errors=errors or [],
        headers=headers or {},
    )
