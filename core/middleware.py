"""Middleware: its base class, request ids, metrics, messages, content policy, caching, compression, redirects to the last slash."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Hashable
from typing import Any
from uuid import uuid4

import structlog
from csp.middleware import CSPMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.messages.storage import default_storage
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponsePermanentRedirect,
)
from django.middleware.common import CommonMiddleware
from django.middleware.gzip import GZipMiddleware
from django.utils.functional import LazyObject, SimpleLazyObject, empty
from django_prometheus.middleware import PrometheusAfterMiddleware
from django_prometheus.utils import Time, TimeSince
from django_structlog.middlewares import RequestMiddleware
from django_structlog.middlewares.request import logger as request_logger

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
    """Sets X-Request-ID, keeping a valid id of the client, and logs start and end of the request.

    The inherited methods are used for what is rare: they bind and format also what no line shows.
    """

    #: Asked before a line is composed.
    lines = logging.getLogger("django_structlog.middlewares.request")

    def prepare(self, request: HttpRequest) -> None:
        request_id = request_id_of(request)
        if not SANE.fullmatch(request_id):
            request_id = request.META[META_NAME] = str(uuid4())
            request.__dict__.pop("headers", None)  # cached from META
        # Not the address of the inherited method, which trusts any X-Forwarded-For.
        structlog.contextvars.bind_contextvars(request_id=request_id, ip=client_address(request))
        if self.lines.isEnabledFor(logging.DEBUG):
            agent = request.META.get("HTTP_USER_AGENT")
            request_logger.debug(
                "request_started", request=self.format_request(request), user_agent=agent
            )

    def handle_response(self, request: HttpRequest, response: HttpResponse) -> None:
        response["X-Request-ID"] = request_id_of(request)
        if response.streaming or "_raised_exception" in request.__dict__:
            super().handle_response(request, response)
            return
        level = self._log_level_for_status_code(response.status_code)
        if self.lines.isEnabledFor(level):
            self.bind_user_id(request)
            line = {"code": response.status_code, "request": self.format_request(request)}
            request_logger.log(level, "request_finished", **line)
        structlog.contextvars.clear_contextvars()


class MetricsMiddleware(PrometheusAfterMiddleware):
    """Counts a request with its response, and finds the counters of known labels in one step.

    The inherited methods look up and build labels for each counter.
    """

    CHARSETS = {"application/json": "utf-8", "text/html; charset=utf-8": "utf-8"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rows: dict[Hashable, tuple[list[Any], Any]] = {}

    def process_request(self, request: HttpRequest) -> None:
        request.prometheus_after_middleware_event = Time()  # type: ignore[attr-defined]

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        pass

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        metrics, match = self.metrics, request.resolver_match
        view = (match and match.view_name) or "<unnamed view>"
        charset = self.CHARSETS.get(response.get("Content-Type", "")) or response.charset
        labels = (self._method(request), request.scheme or "http", view, response.status_code)
        row = self._rows.get((*labels, charset))
        if row is None:
            row = self._rows[*labels, charset] = self._row(*labels, charset)
        counters, latency = row
        for counter in counters:
            counter.inc()
        latency.observe(TimeSince(request.prometheus_after_middleware_event))  # type: ignore[attr-defined]
        if request.META.get("HTTP_X_REQUESTED_WITH") == "XMLHttpRequest":
            metrics.requests_ajax.inc()
        metrics.requests_body_bytes.observe(int(request.META.get("CONTENT_LENGTH") or 0))
        if isinstance(response, HttpResponse):
            metrics.responses_body_bytes.observe(len(response.content))
        else:
            metrics.responses_streaming.inc()
        return response

    def _row(
        self, method: str, scheme: str, view: str, status: int, charset: str
    ) -> tuple[list[Any], Any]:
        """Return the counters of responses with these labels, and the histogram of their latency."""
        m, code = self.metrics, str(status)
        counters = [
            m.requests_by_method.labels(method=method),
            m.requests_by_transport.labels(transport=scheme),
            m.requests_by_view_transport_method.labels(view=view, transport=scheme, method=method),
            m.responses_by_status.labels(status=code),
            m.responses_by_status_view_method.labels(status=code, view=view, method=method),
            m.responses_by_charset.labels(charset=charset),
        ]
        return counters, m.requests_latency_by_view_method.labels(view=view, method=method)


class LazyMessageMiddleware(MessageMiddleware):
    """Opens the storage of messages for people when a view uses it, which programs never do."""

    def process_request(self, request: HttpRequest) -> None:
        request._messages = SimpleLazyObject(lambda: default_storage(request))  # type: ignore[attr-defined]

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        stored = getattr(request, "_messages", None)
        if isinstance(stored, LazyObject) and stored.__dict__["_wrapped"] is empty:
            return response
        return super().process_response(request, response)


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
