"""REST: the files of a session's workspace."""

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

from config.faults import FileTooLarge, Invalid
from sessions_app.api.door import SessionDoor
from sessions_app.uploads import LARGEST_FILE, list_files, open_stored, remove_file, store_file
from tenants.api.whole import whole_page, whole_page_of

#: What a form adds to the file in it.
FORM_BYTES = 64 * 1024


class FileEntrySerializer(serializers.Serializer):
    """One name in a folder. Links are shown and never followed."""

    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=["file", "folder", "link", "other"])
    size = serializers.IntegerField()
    target = serializers.CharField(allow_blank=True)


class UploadSerializer(serializers.Serializer):
    file = serializers.FileField()
    path = serializers.CharField(
        required=False, help_text="Where to put it in the workspace; its own name when left out."
    )


class StoredSerializer(serializers.Serializer):
    path = serializers.CharField()
    size = serializers.IntegerField()
    created = serializers.BooleanField(help_text="False when it replaced a file.")


class FilesView(SessionDoor):
    parser_classes = [MultiPartParser]

    @extend_schema(
        operation_id="sessions_files_list",
        parameters=[OpenApiParameter("path", str, description="A folder; the top when left out.")],
        responses=whole_page_of(FileEntrySerializer),
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """The names in a folder of the session's workspace, at most 1,000."""
        found = list_files(self.find(session_id), request.query_params.get("path", "."))
        return whole_page([asdict(entry) for entry in found])

    @extend_schema(
        operation_id="sessions_files_create",
        request={"multipart/form-data": UploadSerializer},
        responses={201: StoredSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Put a file of at most 64 MB into the workspace. One of the same name is replaced."""
        session = self.find(session_id)
        if int(request.headers.get("Content-Length") or 0) > LARGEST_FILE + FORM_BYTES:
            raise FileTooLarge
        file = request.FILES.get("file")
        if not isinstance(file, UploadedFile):
            raise Invalid("The form has no file in its field `file`.")
        path = str(request.POST.get("path") or PurePosixPath(file.name or "").name)
        created = store_file(session, path, file.chunks())
        return Response({"path": path, "size": file.size, "created": created}, status=201)


class FileView(SessionDoor):
    @extend_schema(
        operation_id="sessions_files_retrieve",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, session_id: UUID, path: str) -> FileResponse:
        """One file, to be saved and not to be shown: a command may have written it."""
        file = open_stored(self.find(session_id), path)
        return FileResponse(
            file,
            as_attachment=True,
            filename=PurePosixPath(path).name,
            content_type="application/octet-stream",
            headers={"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store"},
        )

    @extend_schema(operation_id="sessions_files_destroy", responses={204: None})
    def delete(self, request: Request, session_id: UUID, path: str) -> Response:
        """Take away a file or an empty folder."""
        remove_file(self.find(session_id), path)
        return Response(status=204)
