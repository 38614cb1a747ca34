"""Runs a request in one thread, from the first middleware to the view and back.

Django's own handler goes back and forth between the event loop and a thread for every synchronous
part: once more for the view, and twice for every middleware that could be asynchronous. The views
and most of the middleware here are synchronous, so one thread takes all of it. An asynchronous view
still runs on the event loop, and a streaming answer holds no thread once it has begun.
"""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponseBase


class OneThreadHandler(ASGIHandler):
    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)
