"""REST: terminals, opened in the sandbox of a session or workflow, shared and closed."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from orchestrator.models import Terminal
from orchestrator.terminals import desk
from sessions_app.api.body import body_of
from tenants.api.base import WorkspaceViewSet
from tenants.api.fields import TextField
from tenants.api.parsing import StrictJSONParser


class TerminalSerializer(serializers.ModelSerializer):
    ws_url = serializers.SerializerMethodField(help_text="Where its WebSocket is.")

    class Meta:
        model = Terminal
        fields = [
            "id",
            "ws_url",
            "session",
            "workflow",
            "status",
            "reason",
            "columns",
            "rows",
            "share_expires",
            "created_by",
            "created_at",
            "opened_at",
            "closed_at",
            "closed_by",
        ]
        read_only_fields = fields

    def get_ws_url(self, terminal: Terminal) -> str:
        here: str = self.context["request"].build_absolute_uri(f"/ws/terminals/{terminal.pk}/")
        return here.replace("http", "ws", 1)


class OpenInput(serializers.Serializer):
    session = serializers.UUIDField(required=False, help_text="Whose sandbox to open it in.")
    workflow = TextField(
        required=False,
        max_length=200,
        help_text="Or the workflow whose sandbox it is: its agent's, or its task's.",
    )
    columns = serializers.IntegerField(default=80, min_value=2, max_value=500)
    rows = serializers.IntegerField(default=24, min_value=1, max_value=300)


class ShareInput(serializers.Serializer):
    minutes = serializers.IntegerField(
        default=desk.SHARED_MINUTES, min_value=1, max_value=desk.MOST_MINUTES
    )


class ShareSerializer(serializers.Serializer):
    url = serializers.URLField(help_text="For members of the workspace; they watch, not type.")
    token = serializers.CharField(help_text="Shown once; `?token=` of the WebSocket.")
    expires_at = serializers.DateTimeField()


class TerminalFilter(filters.FilterSet):
    status = filters.ChoiceFilter(choices=Terminal.Status.choices)
    session = filters.UUIDFilter(field_name="session_id")


class TerminalViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Terminal.objects.all()
    serializer_class = TerminalSerializer
    filterset_class = TerminalFilter
    parser_classes = [StrictJSONParser]

    def get_queryset(self) -> Any:
        """Admins see all of the workspace, everybody else what they opened."""
        return super().get_queryset() & desk.visible_to(self.principal)

    @extend_schema(request=OpenInput, responses={201: TerminalSerializer})
    def create(self, request: Request) -> Response:
        """Open a shell in the sandbox of a session, of a workflow's newest session, or of its task."""
        made = desk.open_for(self.principal, **body_of(request, OpenInput))
        return Response(self.get_serializer(made).data, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Close it, with everything that runs in it."""
        desk.close_terminal(self.get_object(), self.principal)
        return Response(status=204)

    @extend_schema(methods=["POST"], request=ShareInput, responses={201: ShareSerializer})
    @extend_schema(methods=["DELETE"], responses={204: None})
    @action(detail=True, methods=["post", "delete"])
    def share(self, request: Request, pk: str) -> Response:
        """POST: a link with which members of the workspace may watch. DELETE: take it back."""
        terminal = self.get_object()
        if request.method == "DELETE":
            desk.unshare_terminal(terminal)
            return Response(status=204)
        token, shared = desk.share_terminal(terminal, **body_of(request, ShareInput))
        page = request.build_absolute_uri(reverse("terminal", args=[terminal.pk]))
        answer = {"url": f"{page}?token={token}", "token": token}
        return Response({**answer, "expires_at": shared.share_expires}, status=201)
