"""REST: the health of the whole stack (database, workers, supervisor, terminals and stream), and metrics."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from secrets import compare_digest, token_hex
from typing import Final, Literal

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django_prometheus.exports import ExportToDjangoView
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.throttling import is_local
from tenants.pulse import pulse_age

log = structlog.get_logger(__name__)

OK: Final = "ok"
DATABASE_SECONDS = 2.5
STREAM_SECONDS = 2.0
#: How long a report is reused, so that health checks cannot load the database.
FRESH_SECONDS = 1.0
#: By name: `ok`, or a short description of the problem.
Checks = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Report:
    checks: Checks
    at: float

    @property
    def status(self) -> Literal["ok", "degraded"]:
        return OK if all(result == OK for result in self.checks.values()) else "degraded"


class HealthChecker:
    """Checks the stack, at most once at a time, and reuses the last report for a moment."""

    def __init__(self) -> None:
        # Own threads: a database that hangs must not use up those of others.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="health")
        self._report: Report | None = None
        self._running: asyncio.Task[Report] | None = None

    async def ask(self) -> Report:
        if self._report and time.monotonic() - self._report.at < FRESH_SECONDS:
            return self._report
        running, here = self._running, asyncio.get_running_loop()
        if running is None or running.done() or running.get_loop() is not here:
            running = self._running = asyncio.create_task(self.check())
        # A caller may give up; the others still wait for the answer.
        return await asyncio.shield(running)

    async def check(self) -> Report:
        rows, stream = await asyncio.gather(self._check_database(), check_stream())
        self._report = Report(checks={**rows, "stream": stream}, at=time.monotonic())
        return self._report

    async def _check_database(self) -> Checks:
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._threads, read_database)
        try:
            return await asyncio.wait_for(reading, DATABASE_SECONDS)
        except Exception as error:  # noqa: BLE001 (whatever is wrong, the answer is the same)
            unknown = dict.fromkeys(("workers", "supervisor", "terminals"), "unknown")
            return {"database": describe_failure("database", error), **unknown}

    def forget(self) -> None:
        """Drop the last report."""
        self._report = None


checker = HealthChecker()


def read_database() -> Checks:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
        return {
            "database": OK,
            "workers": sign_of_life("worker"),
            "supervisor": sign_of_life("supervisor"),
            # Terminals are optional; an installation that has run them must keep them running.
            "terminals": OK if pulse_age("terminals") is None else sign_of_life("terminals"),
        }
    finally:
        connection.close()


def sign_of_life(kind: str) -> str:
    age = pulse_age(kind)
    if age is None:
        return "no sign of life yet"
    return OK if age < settings.PULSE_SECONDS else f"no sign of life for {age:.0f} s"


async def check_stream() -> str:
    """Send a message through the channel layer and wait for it."""
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            return await echo()
    except Exception as error:  # noqa: BLE001 (whatever is wrong, the answer is the same)
        return describe_failure("stream", error)


def describe_failure(check: str, error: Exception) -> str:
    """Log the error and return what anyone may read about it."""
    log.warning("health_check_failed", check=check, error=repr(error))
    return "no answer in time" if isinstance(error, TimeoutError) else "out of reach"


async def echo() -> str:
    layer = get_channel_layer()
    if layer is None:
        return "not configured"
    group, word = f"health.{token_hex(8)}", token_hex(8)
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    try:
        await layer.group_send(group, {"type": "health.ring", "word": word})
        while (await layer.receive(channel)).get("word") != word:
            pass  # the layer's own messages
    finally:
        await layer.group_discard(group, channel)
        # A layer forgets a channel when its last receiver is cancelled.
        with suppress(TimeoutError):
            await asyncio.wait_for(layer.receive(channel), 0.001)
    return OK


def metrics(request: HttpRequest) -> HttpResponse:
    if not may_see(request):
        raise PermissionDenied
    return ExportToDjangoView(request)


def may_see(request: HttpRequest) -> bool:
    """Return whether the caller is this machine, has the token, or is staff."""
    if is_local(request):
        return True
    token: str = settings.METRICS_TOKEN
    given = request.headers.get("Authorization", "")
    if token and compare_digest(given.encode(), f"Bearer {token}".encode()):
        return True
    return request.user.is_active and request.user.is_staff


class ChecksSerializer(serializers.Serializer):
    """`ok`, or a short description of the problem."""

    database = serializers.CharField()
    workers = serializers.CharField()
    supervisor = serializers.CharField()
    terminals = serializers.CharField()
    stream = serializers.CharField()


class HealthSerializer(serializers.Serializer):
    status = serializers.ChoiceField(choices=[OK, "degraded"])
    checks = ChecksSerializer()


def answer_health() -> Response:
    """Return the health as anyone may see it."""
    # Under a web server this runs on its event loop, where the channel layer lives.
    report = async_to_sync(checker.ask)()
    return Response(
        {"status": report.status, "checks": report.checks},
        status=200 if report.status == OK else 503,
        headers={"Cache-Control": "no-store"},
    )


class HealthView(APIView):
    """Anyone may ask, as often as they like."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    @extend_schema(
        operation_id="health", responses={200: HealthSerializer, 503: HealthSerializer}, auth=[]
    )
    def get(self, request: Request) -> Response:
        """Return whether the database, workers, supervisor, terminals and stream work."""
        return answer_health()
