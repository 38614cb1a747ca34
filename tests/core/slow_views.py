"""A web application with a pool of two connections and a view that takes longer than its client waits."""

from __future__ import annotations

import os

import django
from django.conf import settings

SLOW_SECONDS = float(os.environ["SLOW_SECONDS"])

database = settings.DATABASES["default"]
database["NAME"] = os.environ["TEST_DATABASE"]
database["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 2, "timeout": 20}
settings.ROOT_URLCONF = __name__
settings.MIDDLEWARE = []
django.setup(set_prefix=False)

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import path

from core.server import OneThreadHandler


def _sleep(seconds: float) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [seconds])
    return HttpResponse("answered")


def slow(request: HttpRequest) -> HttpResponse:
    return _sleep(SLOW_SECONDS)


def quick(request: HttpRequest) -> HttpResponse:
    return _sleep(0)


urlpatterns = [path("slow", slow), path("quick", quick)]
application = OneThreadHandler()
