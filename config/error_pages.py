"""What people see when something goes wrong."""

from __future__ import annotations

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.utils.html import format_html

from config.faults import Fault, Unauthenticated
from config.request_ids import request_id_of


def page_of_fault(request: HttpRequest, fault: Fault) -> HttpResponse:
    """A page that says what went wrong; without an identity, the way to sign in."""
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
