"""REST endpoints of a session's files and attached resources."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import PurePosixPath
from uuid import UUID

from django.core.files.uploadedfile import UploadedFile
from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from core.db import release_connection
from core.exceptions import Invalid
from core.pagination import whole_page, whole_page_of
from sessions_app.api.base import SessionView
from sessions_app.models import ResourceAttachment
from sessions_app.resources import files
from sessions_app.resources.attachments import attach, detach, find_resource, refresh
from sessions_app.resources.parts import upload_id
from tools_app.exceptions import FileTooLarge

#: The allowance for the parts of a multipart body beside the file.
FORM_BYTES = 64 * 1024


class FileEntrySerializer(serializers.Serializer):
    """An entry of a folder. Links are listed but never followed."""

    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=["file", "folder", "link", "other"])
    size = serializers.IntegerField()
    target = serializers.CharField(allow_blank=True)


class UploadSerializer(serializers.Serializer):
    file = serializers.FileField()
    path = serializers.CharField(
        required=False, help_text="The path in the workspace. Default: the file's own name."
    )


class StoredSerializer(serializers.Serializer):
    path = serializers.CharField()
    size = serializers.IntegerField()
    file_id = serializers.CharField(
        allow_null=True,
        help_text="For `attachments` of messages; null for a file that no model could be shown.",
    )
    created = serializers.BooleanField(help_text="False if it replaced a file.")


class FilesView(SessionView):
    parser_classes = [MultiPartParser]
    largest_body = files.MAX_FILE_BYTES + FORM_BYTES

    @extend_schema(
        operation_id="sessions_files_list",
        parameters=[OpenApiParameter("path", str, description="A folder. Default: the top.")],
        responses=whole_page_of(FileEntrySerializer),
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """List a folder of the session's workspace, at most 1,000 entries."""
        session = self.get_session(session_id)
        entries = files.list_files(session, request.query_params.get("path", "."))
        return whole_page([asdict(entry) for entry in entries])

    @extend_schema(
        operation_id="sessions_files_create",
        request={"multipart/form-data": UploadSerializer},
        responses={201: StoredSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Upload a file of at most 64 MB. A file at the same path is replaced."""
        session = self.get_session(session_id)
        if int(request.headers.get("Content-Length") or 0) > files.MAX_FILE_BYTES + FORM_BYTES:
            raise FileTooLarge
        release_connection()  # Parsing a long form takes a while.
        file = request.FILES.get("file")
        if not isinstance(file, UploadedFile):
            raise Invalid("Send the file in the form field `file`.")
        path = str(request.POST.get("path") or PurePosixPath(file.name or "").name)
        created = files.store_file(session, path, file.chunks())
        stored = {"path": path, "size": file.size, "created": created}
        return Response({**stored, "file_id": upload_id(session, path)}, status=201)


class FileView(SessionView):
    @extend_schema(
        operation_id="sessions_files_retrieve",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, session_id: UUID, path: str) -> FileResponse:
        """Download a file. It is always an attachment, because a command may have written it."""
        file = files.open_stored(self.get_session(session_id), path)
        return FileResponse(
            file,
            as_attachment=True,
            filename=PurePosixPath(path).name,
            content_type="application/octet-stream",
            headers={"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store"},
        )

    @extend_schema(operation_id="sessions_files_destroy", responses={204: None})
    def delete(self, request: Request, session_id: UUID, path: str) -> Response:
        """Delete a file or an empty folder."""
        files.remove_file(self.get_session(session_id), path)
        return Response(status=204)


class ResourceSerializer(serializers.ModelSerializer):
    notice = serializers.CharField(read_only=True)

    class Meta:
        model = ResourceAttachment
        fields = [
            "id",
            "kind",
            "source_ref",
            "mount_path",
            "access",
            "status",
            "reason",
            "notice",
            "prepared_at",
            "created_by",
            "created_at",
        ]
        read_only_fields = ["status", "reason", "prepared_at", "created_by", "created_at"]


class ResourcesView(SessionView):
    @extend_schema(
        operation_id="sessions_resources_list", responses=whole_page_of(ResourceSerializer)
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """List the attached resources by path."""
        resources = self.get_session(session_id).resources.all()
        return whole_page(ResourceSerializer(resources, many=True).data)

    @extend_schema(
        operation_id="sessions_resources_create",
        request=ResourceSerializer,
        responses={201: ResourceSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Attach a resource at an absolute path of the session's sandbox.

        `workspace_directory`, `local_file`, `repo_mount` and `remote_file_store` go below
        `/workspace/`, learnings to `/memory/learnings`, the session's memory to `/runtime`, secrets
        below `/vaults/`. A worker prepares the resource before the next tool call that can use it:
        `status` and `reason` report the result, and `notice` warns about the kind of resource.
        """
        resource = attach(self.get_session(session_id), request.data, self.principal)
        return Response(ResourceSerializer(resource).data, status=201)


class ResourceView(SessionView):
    @extend_schema(operation_id="sessions_resources_retrieve", responses=ResourceSerializer)
    def get(self, request: Request, session_id: UUID, resource_id: UUID) -> Response:
        """Retrieve an attached resource."""
        resource = find_resource(self.get_session(session_id), resource_id)
        return Response(ResourceSerializer(resource).data)

    @extend_schema(operation_id="sessions_resources_destroy", responses={204: None})
    def delete(self, request: Request, session_id: UUID, resource_id: UUID) -> Response:
        """Detach a resource."""
        detach(self.get_session(session_id), resource_id, self.principal.user_id)
        return Response(status=204)


class ResourceRefreshView(SessionView):
    @extend_schema(
        operation_id="sessions_resources_refresh", request=None, responses=ResourceSerializer
    )
    def post(self, request: Request, session_id: UUID, resource_id: UUID) -> Response:
        """Prepare the resource again before the next tool call that can use it."""
        resource = refresh(self.get_session(session_id), resource_id)
        return Response(ResourceSerializer(resource).data)
