"""REST: tasks and their artifacts, and sessions created by a workflow."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from core.exceptions import Invalid
from core.pagination import whole_page, whole_page_of
from core.rest import StrictJSONParser
from orchestrator.api.health import HealthSerializer, answer_health
from orchestrator.api.workflows import AcceptedSerializer, describe_workflow
from orchestrator.engine.lifecycle import find_workflow, wait_for_workflow
from orchestrator.models import Workflow
from orchestrator.tasks.artifacts import artifacts_of, open_artifact
from orchestrator.tasks.start import start_session, start_task
from sessions_app.api.base import client_dedupe_key
from sessions_app.api.sessions import SessionSerializer, serialize_session
from tenants.authentication import principal_of

MAX_WAIT = 60.0
DEFAULT_WAIT = 10.0


class TaskFileInput(serializers.Serializer):
    """Either `text`, also accepted as `content`, or `base64`."""

    path = serializers.CharField(max_length=500)
    text = serializers.CharField(required=False, allow_null=True)
    base64 = serializers.CharField(required=False, allow_null=True)


class TaskInput(serializers.Serializer):
    """Either a `command` for a sandbox, or a `prompt` for an agent."""

    command = serializers.CharField(required=False, max_length=100_000)
    prompt = serializers.CharField(required=False, max_length=100_000)
    agent = serializers.CharField(
        required=False,
        help_text="An agent's id or name; default: the oldest. It answers a prompt; a command runs in its "
        "environment.",
    )
    environment = serializers.CharField(required=False, help_text="An environment's id or name.")
    files = TaskFileInput(many=True, required=False)
    timeout = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=86_400,
        default=600,
        help_text="Seconds. A command's timeout is at most what its environment allows.",
    )
    approval = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Wait for a person's approval before anything runs.",
    )
    keep_seconds = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=2_592_000,
        default=0,
        help_text="How long a command's sandbox stays after the task.",
    )


class MakeSessionInput(serializers.Serializer):
    agent = serializers.CharField(
        required=False, help_text="An agent's id or name; default: the oldest."
    )
    environment = serializers.CharField(required=False, help_text="An environment's id or name.")
    title = serializers.CharField(required=False, max_length=200)
    session_key = serializers.CharField(
        required=False, max_length=200, help_text="The same agent and key are the same session."
    )


class MadeSessionSerializer(AcceptedSerializer):
    session_id = serializers.UUIDField(allow_null=True, help_text="Null while it is being created.")
    id = serializers.UUIDField(allow_null=True, help_text="The same as session_id.")
    session = SessionSerializer(allow_null=True)


def body_fields(request: Request) -> dict[str, object]:
    if not isinstance(request.data, dict):
        raise Invalid("The body must be a JSON object.")
    return request.data


class TaskView(APIView):
    """The health of tasks for anyone; starting one needs the right to run."""

    parser_classes = [StrictJSONParser]

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [] if self._is_open else super().get_authenticators()

    def get_permissions(self) -> Any:
        return [] if self._is_open else super().get_permissions()

    def get_throttles(self) -> list[BaseThrottle]:
        return [] if self._is_open else super().get_throttles()

    @property
    def _is_open(self) -> bool:
        request = getattr(self, "request", None)  # unset while the OpenAPI document is generated
        return request is not None and request.method in {"GET", "HEAD"}

    @extend_schema(
        operation_id="orchestrator_health",
        responses={200: HealthSerializer, 503: HealthSerializer},
        auth=[],
    )
    def get(self, request: Request) -> Response:
        """Return whether tasks can run: the database, workers, supervisor and stream."""
        return answer_health()

    @extend_schema(
        operation_id="orchestrator_execute", request=TaskInput, responses={202: AcceptedSerializer}
    )
    def post(self, request: Request) -> Response:
        """Run a command in a sandbox, or ask an agent, as a durable workflow."""
        made = start_task(principal_of(request), body_fields(request), client_dedupe_key(request))
        return Response(describe_workflow(made), status=202)


class SessionView(APIView):
    parser_classes = [StrictJSONParser]

    @extend_schema(
        operation_id="orchestrator_session",
        request=MakeSessionInput,
        parameters=[
            OpenApiParameter(
                "wait", float, description="Seconds to wait for the session, from 0 to 60."
            )
        ],
        responses={201: MadeSessionSerializer, 202: MadeSessionSerializer},
    )
    def post(self, request: Request) -> Response:
        """Create a session by a workflow: 201 when it exists, 202 while it is being created."""
        seconds = wait_seconds(request)
        made = start_session(
            principal_of(request), body_fields(request), client_dedupe_key(request)
        )
        found = wait_for_workflow(made.pk, seconds)
        output = found.output if found.status == Workflow.Status.COMPLETE else {}
        session_id = output.get("session_id")
        answer = {
            **describe_workflow(found),
            "session_id": session_id,
            "id": session_id,
            "session": serialize_session(UUID(session_id)) if session_id else None,
        }
        return Response(answer, status=201 if session_id else 202)


def wait_seconds(request: Request) -> float:
    try:
        seconds = float(request.query_params.get("wait", DEFAULT_WAIT))
    except ValueError:
        raise Invalid("wait must be a number of seconds.") from None
    if not 0 <= seconds <= MAX_WAIT:
        raise Invalid(f"wait must be from 0 to {MAX_WAIT:.0f} seconds.")
    return seconds


class ArtifactSerializer(serializers.Serializer):
    path = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField()


class ArtifactsView(APIView):
    @extend_schema(
        operation_id="workflows_artifacts_list", responses=whole_page_of(ArtifactSerializer)
    )
    def get(self, request: Request, pk: str) -> Response:
        """List the files that the task produced, once they are collected."""
        return whole_page(artifacts_of(find_workflow(principal_of(request), pk)))


class ArtifactView(APIView):
    @extend_schema(
        operation_id="workflows_artifacts_retrieve",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, pk: str, path: str) -> FileResponse:
        """Download one artifact. A command wrote it, so browsers must not display it."""
        return download(open_artifact(find_workflow(principal_of(request), pk), path), path)


def download(file: object, path: str) -> FileResponse:
    return FileResponse(
        file,
        as_attachment=True,
        filename=PurePosixPath(path).name,
        content_type="application/octet-stream",
        headers={"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store"},
    )
