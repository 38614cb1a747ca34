"""Django's error views: the same errors as problems for programs and as pages for people."""

from __future__ import annotations

import sys

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.views import defaults

from config.error_pages import page_of_fault
from config.faults import CsrfFailed, Forbidden
from config.problem_kinds import UNEXPECTED, problem_of
from config.problems import is_program, problem_response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if is_program(request):
        return problem_response(problem_of(exception) or UNEXPECTED, request)
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if is_program(request):
        return problem_response(problem_of(exception) or UNEXPECTED, request)
    return defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if is_program(request):
        return problem_response(problem_of(exception) or UNEXPECTED, request)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    if is_program(request):
        error = sys.exc_info()[1]  # Django calls this view while it handles the exception
        known = problem_of(error) if error else None
        return problem_response(known or UNEXPECTED, request)
    return defaults.server_error(request)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    fault = CsrfFailed()
    if is_program(request):
        return problem_response(fault, request)
    return page_of_fault(request, fault)


def staff_sign_in(request: HttpRequest) -> HttpResponseBase:
    """The way into the staff pages. Somebody who is in, but not of the staff, stays out."""
    if request.user.is_authenticated:
        raise Forbidden("These pages are for staff.")
    return redirect_to_login(request.GET.get("next", "/admin/"))
