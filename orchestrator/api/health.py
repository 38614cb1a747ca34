"""REST: the health of the whole stack, and metrics."""

from __future__ import annotations

from secrets import compare_digest

from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django_prometheus.exports import ExportToDjangoView
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.throttling import is_local
from orchestrator.health import OK, checker


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
