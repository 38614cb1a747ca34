"""Sends a path that lacks its last slash to the one that has it, with method and body kept."""

from __future__ import annotations

from django.http import HttpResponsePermanentRedirect
from django.middleware.common import CommonMiddleware


class SameRequestThere(HttpResponsePermanentRedirect):
    """After a 301 clients ask anew with GET, and what they posted would be lost in silence."""

    status_code = 308


class SlashMiddleware(CommonMiddleware):
    response_redirect_class = SameRequestThere
