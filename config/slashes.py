"""Paths as they are meant: one that lacks its last slash is sent on, one with a NUL leads nowhere."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponsePermanentRedirect
from django.middleware.common import CommonMiddleware


class SameRequestThere(HttpResponsePermanentRedirect):
    """After a 301 clients ask anew with GET, and what they posted would be lost in silence."""

    status_code = 308


class SlashMiddleware(CommonMiddleware):
    response_redirect_class = SameRequestThere

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        # PostgreSQL refuses it in any text, so nothing has such a name; asking would be an error.
        if "\0" in request.path:
            raise Http404
        return super().process_request(request)
