"""REST: the TaskAgent, beside the versioned API: its health, tasks, and sessions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from config.faults import Invalid
from orchestrator.api.health import HealthSerializer, answer_health
from orchestrator.models import Workflow
from orchestrator.taskagent.door import start_session, start_task
from orchestrator.waiting import wait_for_workflow
from sessions_app.api.door import client_key
from sessions_app.api.serializers import SessionSerializer
from sessions_app.api.sessions import show_session
from tenants.api.parsing import StrictJSONParser
from tenants.authentication import principal_of

MOST_WAIT = 60.0
USUAL_WAIT = 10.0


class TaskFileInput(serializers.Serializer):
    """Either `text`, which may be called `content`, or `base64`."""

    path = serializers.CharField(max_length=500)
    text = serializers.CharField(required=False, allow_null=True)
    base64 = serializers.CharField(required=False, allow_null=True)


class TaskInput(serializers.Serializer):
    """Either a `command` for a sandbox, or a `prompt` for an agent."""

    command = serializers.CharField(required=False, max_length=100_000)
    prompt = serializers.CharField(required=False, max_length=100_000)
    agent = serializers.CharField(
        required=False,
        help_text="An agent's id or name. It answers a prompt, else the eldest does; a command runs "
        "in its environment.",
    )
    environment = serializers.CharField(required=False, help_text="Its id or name.")
    files = TaskFileInput(many=True, required=False)
    timeout = serializers.IntegerField(required=False, min_value=1, max_value=86_400, default=600)
    approval = serializers.BooleanField(
        required=False, default=False, help_text="Ask a person before anything runs."
    )
    keep_seconds = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=2_592_000,
        default=0,
        help_text="How long a command's workspace stays after the task.",
    )


class MakeSessionInput(serializers.Serializer):
    agent = serializers.CharField(required=False, help_text="Its id or name; else the eldest.")
    environment = serializers.CharField(required=False, help_text="Its id or name.")
    title = serializers.CharField(required=False, max_length=200)
    session_key = serializers.CharField(
        required=False, max_length=200, help_text="The same agent and key are the same session."
    )


class AcceptedSerializer(serializers.Serializer):
    workflow_id = serializers.UUIDField()
    status = serializers.CharField()


class MadeSessionSerializer(AcceptedSerializer):
    session_id = serializers.UUIDField(allow_null=True, help_text="Null while it is being made.")
    id = serializers.UUIDField(allow_null=True, help_text="The session's id once more.")
    session = SessionSerializer(allow_null=True)


def accepted(workflow: Workflow) -> dict[str, object]:
    return {"workflow_id": str(workflow.pk), "status": workflow.status}


def fields_of(request: Request) -> dict[str, object]:
    if not isinstance(request.data, dict):
        raise Invalid("The body must be a JSON object.")
    return request.data


class TaskView(APIView):
    """Anyone may ask how it is; only who may run something here may start a task."""

    parser_classes = [StrictJSONParser]

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [] if self._is_open else super().get_authenticators()

    def get_permissions(self) -> Any:
        return [] if self._is_open else super().get_permissions()

    def get_throttles(self) -> list[BaseThrottle]:
        return [] if self._is_open else super().get_throttles()

    @property
    def _is_open(self) -> bool:
        asked = getattr(self, "request", None)  # none while the API is described
        return asked is not None and asked.method in {"GET", "HEAD"}

    @extend_schema(
        operation_id="orchestrator_health",
        responses={200: HealthSerializer, 503: HealthSerializer},
        auth=[],
    )
    def get(self, request: Request) -> Response:
        """Whether tasks can be run: the database, the workers, the supervisor and the stream."""
        return answer_health()

    @extend_schema(
        operation_id="orchestrator_execute", request=TaskInput, responses={202: AcceptedSerializer}
    )
    def post(self, request: Request) -> Response:
        """Run a command in a sandbox, or ask an agent, as a durable workflow."""
        made = start_task(principal_of(request), fields_of(request), client_key(request))
        return Response(accepted(made), status=202)


class SessionMakerView(APIView):
    parser_classes = [StrictJSONParser]

    @extend_schema(
        operation_id="orchestrator_session",
        request=MakeSessionInput,
        parameters=[
            OpenApiParameter("wait", float, description="Seconds to wait for it, from 0 to 60.")
        ],
        responses={201: MadeSessionSerializer, 202: MadeSessionSerializer},
    )
    def post(self, request: Request) -> Response:
        """Have a session made by a workflow: 201 when it is there, 202 while it is being made."""
        seconds = wait_of(request)
        made = start_session(principal_of(request), fields_of(request), client_key(request))
        found = wait_for_workflow(made.pk, seconds)
        told = found.output if found.status == Workflow.Status.COMPLETE else {}
        session_id = told.get("session_id")
        answer: dict[str, object] = {**accepted(found), "session_id": session_id, "id": session_id}
        answer["session"] = show_session(UUID(session_id)) if session_id else None
        return Response(answer, status=201 if session_id else 202)


def wait_of(request: Request) -> float:
    try:
        seconds = float(request.query_params.get("wait", USUAL_WAIT))
    except ValueError:
        raise Invalid("wait is a number of seconds.") from None
    if not 0 <= seconds <= MOST_WAIT:
        raise Invalid(f"wait is from 0 to {MOST_WAIT:.0f} seconds.")
    return seconds
