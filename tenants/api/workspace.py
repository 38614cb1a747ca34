"""REST: the acting workspace itself, and who is asking."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.access import authorise
from tenants.api.serializers import MeSerializer, WorkspaceSerializer
from tenants.authentication import principal_of
from tenants.models import Workspace


class WorkspaceView(APIView):
    verbs = {"GET": "read", "PATCH": "admin"}

    @extend_schema(operation_id="workspace_retrieve", responses=WorkspaceSerializer)
    def get(self, request: Request) -> Response:
        """The workspace in which this identity acts."""
        workspace_id = authorise(principal_of(request), "read")
        return Response(WorkspaceSerializer(Workspace.objects.get(pk=workspace_id)).data)

    @extend_schema(
        operation_id="workspace_rename", request=WorkspaceSerializer, responses=WorkspaceSerializer
    )
    def patch(self, request: Request) -> Response:
        """Give the workspace another name."""
        workspace_id = authorise(principal_of(request), "admin")
        workspace = Workspace.objects.get(pk=workspace_id)
        asked = WorkspaceSerializer(workspace, data=request.data, partial=True)
        asked.is_valid(raise_exception=True)
        asked.save()
        return Response(asked.data)


class MeView(APIView):
    @extend_schema(operation_id="me", responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Who is asking, where they act, and what they may do there."""
        principal = principal_of(request)
        workspace_id = authorise(principal, "read")
        me = {
            "user": principal.user,
            "key": principal.key,
            "workspace": Workspace.objects.get(pk=workspace_id),
            "role": principal.role,
            "verbs": sorted(principal.verbs),
        }
        return Response(MeSerializer(me).data)
