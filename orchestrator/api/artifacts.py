"""REST: what a task made, listed and downloaded."""

from __future__ import annotations

from pathlib import PurePosixPath

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from orchestrator.engine.starting import find_workflow
from orchestrator.taskagent.artifacts import artifacts_of, open_artifact
from tenants.api.whole import whole_page, whole_page_of
from tenants.authentication import principal_of


class ArtifactSerializer(serializers.Serializer):
    path = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField()


class ArtifactsView(APIView):
    @extend_schema(
        operation_id="workflows_artifacts_list", responses=whole_page_of(ArtifactSerializer)
    )
    def get(self, request: Request, pk: str) -> Response:
        """What the task made, once it was collected."""
        return whole_page(artifacts_of(find_workflow(principal_of(request), pk)))


class ArtifactView(APIView):
    @extend_schema(
        operation_id="workflows_artifacts_retrieve",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, pk: str, path: str) -> FileResponse:
        """One artifact, to be saved and not to be shown: a command wrote it."""
        return download(open_artifact(find_workflow(principal_of(request), pk), path), path)


def download(file: object, path: str) -> FileResponse:
    return FileResponse(
        file,
        as_attachment=True,
        filename=PurePosixPath(path).name,
        content_type="application/octet-stream",
        headers={"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store"},
    )
