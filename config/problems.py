"""Answers errors: problem+json for programs, pages for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import structlog
from django.core.signals import got_request_exception
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from rest_framework.views import APIView, set_rollback

from config.error_pages import page_of_fault
from config.faults import Fault
from config.problem_kinds import UNEXPECTED, Problem, problem_of
from config.request_ids import request_id_of

log = structlog.get_logger(__name__)

CONTENT_TYPE = "application/problem+json"
#: Paths that programs call. Everything else is a page.
PROGRAM_PATHS = ("/api/", "/v1/", "/mcp", "/ws/", "/hooks/", "/metrics")


def is_program(request: HttpRequest) -> bool:
    return request.path.startswith(PROGRAM_PATHS)


def problem_response(problem: Problem | Fault, request: HttpRequest) -> JsonResponse:
    """Write a problem down as RFC 9457 wants it."""
    if isinstance(problem, Fault):
        problem = problem_of(problem) or UNEXPECTED
    body = asdict(problem)
    headers, extra = body.pop("headers"), body.pop("extra")
    kind = {"type": f"urn:switchyard:problem:{problem.code}", "title": problem.title}
    body = {**extra, **kind, **body}
    body["request_id"] = request_id_of(request)
    return JsonResponse(body, status=problem.status, headers=headers, content_type=CONTENT_TYPE)


def answer_exception(error: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """The REST framework's handler. What nobody raised on purpose goes on to the middleware."""
    problem = problem_of(error)
    if problem is None:
        return None
    set_rollback()
    problem = replace(problem, detail=f"{problem.detail}{_media_types(problem, context)}")
    if problem.status >= 500:
        log.warning("request_refused", code=problem.code, exc_info=error)
    return problem_response(problem, context["request"]._request)


def _media_types(problem: Problem, context: Mapping[str, Any]) -> str:
    """Which ones there are, for whoever sent or asked for another."""
    view: APIView = context["view"]
    match problem.status:
        case 406:
            offered = [renderer.media_type for renderer in view.renderer_classes]
            return f" This path answers {' or '.join(map(str, offered))}."
        case 415:
            taken = [parser.media_type for parser in view.parser_classes]
            return f" This path takes {' or '.join(map(str, taken))}."
        case _:
            return ""


class ProblemMiddleware:
    """Catches what a view let through.

    Only synchronous, so that the middleware around it runs in one thread without hopping.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        if not is_program(request):
            return page_of_fault(request, error) if isinstance(error, Fault) else None
        problem = problem_of(error)
        if problem is None:
            # As Django does for its own 500 page: whoever records errors listens to this.
            got_request_exception.send(sender=type(self), request=request)
            problem = UNEXPECTED
        return problem_response(problem, request)
