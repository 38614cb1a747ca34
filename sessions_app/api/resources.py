"""REST: what a session is given to work with."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.faults import NotFound
from sessions_app.api.door import SessionDoor
from sessions_app.api.serializers import ResourceSerializer
from sessions_app.resources import attach, detach, refresh
from tenants.api.whole import whole_page, whole_page_of


class ResourcesView(SessionDoor):
    @extend_schema(
        operation_id="sessions_resources_list", responses=whole_page_of(ResourceSerializer)
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """Everything that is attached, by its path."""
        found = self.find(session_id).resources.all()
        return whole_page(ResourceSerializer(found, many=True).data)

    @extend_schema(
        operation_id="sessions_resources_create",
        request=ResourceSerializer,
        responses={201: ResourceSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Attach something at an absolute path of the session's sandbox.

        `workspace_directory`, `local_file`, `repo_mount` and `remote_file_store` stand below
        `/workspace/`, learnings at `/memory/learnings`, the session's memory at `/runtime`, secrets
        below `/vaults/`. A worker prepares it before the next call that can use it; `status` and
        `reason` say what became of that, and `notice` what to know before giving it.
        """
        attached = attach(self.find(session_id), request.data, self.principal)
        return Response(ResourceSerializer(attached).data, status=201)


class ResourceView(SessionDoor):
    @extend_schema(operation_id="sessions_resources_retrieve", responses=ResourceSerializer)
    def get(self, request: Request, session_id: UUID, resource_id: UUID) -> Response:
        """One attached resource."""
        found = self.find(session_id).resources.filter(pk=resource_id).first()
        if found is None:
            raise NotFound
        return Response(ResourceSerializer(found).data)

    @extend_schema(operation_id="sessions_resources_destroy", responses={204: None})
    def delete(self, request: Request, session_id: UUID, resource_id: UUID) -> Response:
        """Take it away."""
        detach(self.find(session_id), resource_id, self.principal.user_id)
        return Response(status=204)


class ResourceRefreshView(SessionDoor):
    @extend_schema(
        operation_id="sessions_resources_refresh", request=None, responses=ResourceSerializer
    )
    def post(self, request: Request, session_id: UUID, resource_id: UUID) -> Response:
        """Have it prepared anew before the next call that can use it."""
        found = refresh(self.find(session_id), resource_id)
        return Response(ResourceSerializer(found).data)
