"""REST: one message to an agent, in the session of a key, without asking for either first."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from sessions_app import runtime
from sessions_app.api.body import body_of
from sessions_app.api.door import client_key
from sessions_app.api.inputs import RuntimeInput
from tenants.api.parsing import StrictJSONParser
from tenants.authentication import principal_of

ENQUEUED = inline_serializer(
    "Enqueued",
    {
        "run_id": serializers.UUIDField(allow_null=True),
        "session_id": serializers.UUIDField(),
        "accepted_at": serializers.DateTimeField(),
    },
)


class RuntimeView(APIView):
    parser_classes = [StrictJSONParser]

    @extend_schema(operation_id="runtime", request=RuntimeInput, responses={202: ENQUEUED})
    def post(self, request: Request) -> Response:
        """Send a message to the session of this agent and key, made if there is none."""
        asked = body_of(request, RuntimeInput)
        enqueued = runtime.enqueue_agent_run(
            asked.pop("agent"),
            asked.pop("session_key"),
            asked.pop("message"),
            principal=principal_of(request),
            dedupe_key=client_key(request),
            **asked,
        )
        answer = {
            "run_id": enqueued.run_id,
            "session_id": enqueued.session_id,
            "accepted_at": enqueued.accepted_at,
        }
        return Response(answer, status=202)
