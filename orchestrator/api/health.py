"""REST: how the whole stack is, for anyone who asks."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from orchestrator.health import OK, doctor


class ChecksSerializer(serializers.Serializer):
    """`ok`, or in a few words what is wrong."""

    database = serializers.CharField()
    workers = serializers.CharField()
    supervisor = serializers.CharField()
    terminals = serializers.CharField()
    stream = serializers.CharField()


class HealthSerializer(serializers.Serializer):
    status = serializers.ChoiceField(choices=[OK, "degraded"])
    checks = ChecksSerializer()


def answer_health() -> Response:
    """What anyone is told who asks how it is."""
    # Under a web server this runs on its own event loop, where the channel layer lives.
    report = async_to_sync(doctor.ask)()
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
        """Whether the database, the workers, the supervisor, the terminals and the stream work."""
        return answer_health()
