"""Middleware: its base class, request ids for logs, errors and responses, and redirects to the last slash."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponsePermanentRedirect,
)
from django.middleware.common import CommonMiddleware
from django_structlog.middlewares import RequestMiddleware

META_NAME = "HTTP_X_REQUEST_ID"
SANE = re.compile(r"[A-Za-z0-9._:=+/-]{8,128}")


def request_id_of(request: HttpRequest) -> str:
    return str(request.META.get(META_NAME, ""))


class SyncMiddleware:
    """The base of own middleware, synchronous so that a request runs in one thread."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)


class RequestIdMiddleware(RequestMiddleware):
    """Sets X-Request-ID, keeping a valid id of the client, and logs start and end of the request."""

    def prepare(self, request: HttpRequest) -> None:
        if not SANE.fullmatch(request_id_of(request)):
            request.META[META_NAME] = str(uuid4())
            request.__dict__.pop("headers", None)  # cached from META
        super().prepare(request)

    def handle_response(self, request: HttpRequest, response: HttpResponse) -> None:
        response["X-Request-ID"] = request_id_of(request)
        super().handle_response(request, response)


class PermanentRedirect308(HttpResponsePermanentRedirect):
    """A redirect that keeps method and body. After a 301 clients repeat a POST as a GET."""

    status_code = 308


class SlashMiddleware(CommonMiddleware):
    response_redirect_class = PermanentRedirect308

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        # PostgreSQL refuses NUL in any text, so a query for such a name would fail.
        if "\0" in request.path:
            raise Http404
        return super().process_request(request)
