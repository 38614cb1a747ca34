"""Turns exceptions into responses: problem+json (RFC 9457) for programs, pages for people."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pydantic
import structlog
from django.contrib.auth.views import redirect_to_login
from django.core import exceptions as django_exceptions
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.utils.html import format_html
from django.views import defaults
from rest_framework import exceptions as rest_exceptions
from rest_framework.views import APIView, set_rollback

from core.exceptions import CHALLENGE, CsrfFailed, Fault, Forbidden, Unauthenticated
from core.middleware import SyncMiddleware, request_id_of
from core.validation import (
    FieldError,
    describe_errors,
    django_errors,
    pydantic_errors,
    rest_errors,
)

log = structlog.get_logger(__name__)

CONTENT_TYPE = "application/problem+json"
#: Paths that programs call. Every other path is a page.
PROGRAM_PATHS = ("/api/", "/v1/", "/ag-ui/", "/mcp", "/ws/", "/hooks/", "/metrics")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What the client learns about an error."""

    status: int
    code: str
    detail: str
    errors: list[FieldError] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    #: Members of this kind of problem only, such as the version that a stale write lost to.
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The title, which is the same for every problem with this code."""
        return self.code.replace("_", " ").capitalize()


UNEXPECTED = Problem(
    status=500,
    code="unexpected",
    detail="Something went wrong on our side. It was recorded under the request's id.",
)


def problem_of(error: BaseException) -> Problem | None:
    """Return the problem behind an exception, or None for an unexpected one."""
    match error:
        case Fault():
            return _from_fault(error)
        case rest_exceptions.APIException():
            return _from_rest(error)
        case pydantic.ValidationError():
            return _invalid(list(pydantic_errors(error)))
        case django_exceptions.ValidationError():
            return _invalid(list(django_errors(error)))
        case OperationalError() | InterfaceError():
            return Problem(
                status=503,
                code="unavailable",
                detail="The database cannot be reached or is busy. Try again in a moment.",
                headers={"Retry-After": "1"},
            )
        case _:
            return _from_django(error)


def _from_fault(fault: Fault) -> Problem:
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


def _from_rest(error: rest_exceptions.APIException) -> Problem:
    headers: dict[str, str] = {}
    if error.status_code == 401:
        headers["WWW-Authenticate"] = getattr(error, "auth_header", CHALLENGE)
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    if isinstance(error, rest_exceptions.ValidationError):
        return _invalid(list(rest_errors(error.get_full_details())))
    codes = error.get_codes()
    code = codes if isinstance(codes, str) else "refused"
    known = {"parse_error": "malformed", "not_authenticated": "unauthenticated"}
    code = {**known, "permission_denied": "forbidden"}.get(code, code)
    detail = str(error.detail)
    if isinstance(error, rest_exceptions.MethodNotAllowed):
        detail += " The Allow header of this response lists the allowed methods."
    return Problem(status=error.status_code, code=code, detail=detail, headers=headers)


def _from_django(error: BaseException) -> Problem | None:
    match error:
        case Http404():
            status, code, detail = 404, "not_found", "This does not exist, or you cannot see it."
        case django_exceptions.PermissionDenied():
            status, code, detail = 403, "forbidden", "You are not allowed to do this."
        case django_exceptions.RequestDataTooBig():
            status, code = 413, "too_large"
            detail = "The request is larger than this server accepts."
        case MultiPartParserError() | django_exceptions.BadRequest():
            status, code, detail = 400, "malformed", "The request cannot be read."
        case RecursionError():
            # Python's JSON parser gives up this way; nothing else here recurses deeply.
            status, code, detail = 400, "malformed", "The request is nested too deeply."
        case django_exceptions.SuspiciousOperation():
            status, code, detail = 400, "refused", "The request was refused."
        case _:
            return None
    return Problem(status=status, code=code, detail=detail)


def _invalid(errors: list[FieldError]) -> Problem:
    return Problem(status=400, code="invalid", detail=describe_errors(errors), errors=errors)


# ── Responses ────────────────────────────────────────────────────────────────


def is_program(request: HttpRequest) -> bool:
    return request.path.startswith(PROGRAM_PATHS)


def problem_response(problem: Problem | Fault, request: HttpRequest) -> JsonResponse:
    """Write a problem as RFC 9457 defines it."""
    if isinstance(problem, Fault):
        problem = _from_fault(problem)
    return JsonResponse(
        problem_body(problem, request_id_of(request)),
        status=problem.status,
        headers=problem.headers,
        content_type=CONTENT_TYPE,
    )


def problem_body(problem: Problem, request_id: str) -> dict[str, Any]:
    body = asdict(problem)
    extra = body.pop("extra")
    del body["headers"]
    kind = {"type": f"urn:switchyard:problem:{problem.code}", "title": problem.title}
    return {**extra, **kind, **body, "request_id": request_id}


def fault_page(request: HttpRequest, fault: Fault) -> HttpResponse:
    """Render the error page of a fault, or redirect an anonymous visitor to sign in."""
    if isinstance(fault, Unauthenticated):
        return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")
    context = {"fault": fault, "status": fault.status, "request_id": request_id_of(request)}
    try:
        body = get_template("fault.html").render(context, request)
    except TemplateDoesNotExist:
        body = format_html(
            "<!doctype html><title>{}</title><h1>{}</h1>", fault.status, fault.detail
        )
    return HttpResponse(body, status=fault.status)


def answer_exception(error: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """Handle exceptions for the REST framework. `ProblemMiddleware` gets the unexpected ones."""
    problem = problem_of(error)
    if problem is None:
        return None
    set_rollback()
    problem = replace(problem, detail=f"{problem.detail}{_media_types(problem, context)}")
    if problem.status >= 500:
        log.warning("request_refused", code=problem.code, exc_info=error)
    return problem_response(problem, context["request"]._request)


def _media_types(problem: Problem, context: Mapping[str, Any]) -> str:
    """List the media types that the view supports after a request for another one."""
    view: APIView = context["view"]
    match problem.status:
        case 406:
            offered = [renderer.media_type for renderer in view.renderer_classes]
            return f" This path returns {' or '.join(map(str, offered))}."
        case 415:
            accepted = [parser.media_type for parser in view.parser_classes]
            return f" This path accepts {' or '.join(map(str, accepted))}."
        case _:
            return ""


class ProblemMiddleware(SyncMiddleware):
    """Answers exceptions that a view did not handle."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        if not is_program(request):
            return fault_page(request, error) if isinstance(error, Fault) else None
        problem = problem_of(error)
        if problem is None:
            # Django sends this signal for its own 500 page; error reporters listen to it.
            got_request_exception.send(sender=type(self), request=request)
            problem = UNEXPECTED
        return problem_response(problem, request)


# ── Django's error views ─────────────────────────────────────────────────────


def _error_view(page: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Answer programs with a problem, and people with Django's page."""

    def view(request: HttpRequest, exception: Exception) -> HttpResponseBase:
        if is_program(request):
            return problem_response(problem_of(exception) or UNEXPECTED, request)
        return page(request, exception)

    return view


bad_request = _error_view(defaults.bad_request)
permission_denied = _error_view(defaults.permission_denied)
page_not_found = _error_view(defaults.page_not_found)


def server_error(request: HttpRequest) -> HttpResponseBase:
    if is_program(request):
        error = sys.exc_info()[1]  # Django calls this view while it handles the exception
        known = problem_of(error) if error else None
        return problem_response(known or UNEXPECTED, request)
    return defaults.server_error(request)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    fault = CsrfFailed()
    return problem_response(fault, request) if is_program(request) else fault_page(request, fault)


def staff_sign_in(request: HttpRequest) -> HttpResponseBase:
    """Redirect to the sign-in page. A signed-in user who is not staff is refused."""
    if request.user.is_authenticated:
        raise Forbidden("These pages are for staff.")
    return redirect_to_login(request.GET.get("next", "/admin/"))
