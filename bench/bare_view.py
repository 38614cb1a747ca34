"""The floor of `door.py`: Django's own handler with one view that reads and writes JSON, and nothing else."""

from __future__ import annotations

import json

import django
from django.conf import settings

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, USE_TZ=True, LOGGING_CONFIG=None)
django.setup(set_prefix=False)

from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, JsonResponse
from django.urls import path


def bare(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"received": json.loads(request.body)["message"]}, status=202)


urlpatterns = [path("api/v1/runtime/", bare)]
application = ASGIHandler()
