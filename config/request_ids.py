"""Gives every request an id, which its log lines, its errors and its answer carry."""

from __future__ import annotations

import re
from uuid import uuid4

from django.http import HttpRequest, HttpResponse
from django_structlog.middlewares import RequestMiddleware

META_NAME = "HTTP_X_REQUEST_ID"
SANE = re.compile(r"[A-Za-z0-9._:=+/-]{8,128}")


def request_id_of(request: HttpRequest) -> str:
    return str(request.META.get(META_NAME, ""))


class RequestIdMiddleware(RequestMiddleware):
    """Keeps the client's own id when it is sane, and writes the first and last line of a request."""

    def prepare(self, request: HttpRequest) -> None:
        if not SANE.fullmatch(request_id_of(request)):
            request.META[META_NAME] = str(uuid4())
            request.__dict__.pop("headers", None)  # built from META once, perhaps already
        super().prepare(request)

    def handle_response(self, request: HttpRequest, response: HttpResponse) -> None:
        response["X-Request-ID"] = request_id_of(request)
        super().handle_response(request, response)
