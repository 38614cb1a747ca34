"""Middleware: its base class, request ids, content policy, caching, compression, redirects to the last slash."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

import structlog
from csp.middleware import CSPMiddleware
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponsePermanentRedirect,
)
from django.middleware.common import CommonMiddleware
from django.middleware.gzip import GZipMiddleware
from django_structlog.middlewares import RequestMiddleware

from core.throttling import client_address

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

    @classmethod
    def bind_ip(cls, request: HttpRequest) -> None:
        # The inherited method trusts any X-Forwarded-For and looks for twenty other headers.
        structlog.contextvars.bind_contextvars(ip=client_address(request))

    def handle_response(self, request: HttpRequest, response: HttpResponse) -> None:
        response["X-Request-ID"] = request_id_of(request)
        super().handle_response(request, response)


class ContentPolicyMiddleware(CSPMiddleware):
    """Sends the content security policy, and with JSON one that allows nothing at all."""

    DATA_TYPES = ("application/json", "application/problem+json")
    NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if not response.get("Content-Type", "").startswith(self.DATA_TYPES):
            return super().process_response(request, response)
        # Building the policy of a page would be a twentieth of a request's work.
        response["Content-Security-Policy"] = self.NOTHING
        return response


class NoStoreMiddleware(SyncMiddleware):
    """Lets no cache keep a page or an answer, unless its view says otherwise. Static files pass it by."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class CompressionMiddleware(GZipMiddleware):
    """Compresses pages and JSON for clients that accept gzip.

    Streams are left alone: compressing would hold back frames. Django hides the length of each
    response with random bytes, so that it does not betray secrets in the page (BREACH).
    """

    async_capable = False
    TEXTS = ("text/html", "application/json", "application/problem+json", "text/markdown")

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if response.streaming or not response.get("Content-Type", "").startswith(self.TEXTS):
            return response
        return super().process_response(request, response)


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
