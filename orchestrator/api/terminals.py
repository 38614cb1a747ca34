"""REST: terminals in the sandbox of a session or workflow."""

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

from core.rest import StrictJSONParser, TextField, validate_body
from orchestrator.models import Terminal
from orchestrator.terminals import terminals
from tenants.api.base import WorkspaceViewSet


class TerminalSerializer(serializers.ModelSerializer):
    ws_url = serializers.SerializerMethodField(help_text="The URL of its WebSocket.")

    class Meta:
        model = Terminal
        fields = [
            "id", "ws_url", "session", "workflow", "status", "reason", "columns", "rows",
            "share_expires", "created_by", "created_at", "opened_at", "closed_at", "closed_by",
        ]  # fmt: skip
        read_only_fields = fields

    def get_ws_url(self, terminal: Terminal) -> str:
        here: str = self.context["request"].build_absolute_uri(f"/ws/terminals/{terminal.pk}/")
        return here.replace("http", "ws", 1)


class OpenInput(serializers.Serializer):
    session = serializers.UUIDField(
        required=False, help_text="The session whose sandbox to open it in."
    )
    workflow = TextField(
        required=False,
        max_length=200,
        help_text="Or the workflow: opens the sandbox of its session or task.",
    )
    columns = serializers.IntegerField(default=80, min_value=2, max_value=500)
    rows = serializers.IntegerField(default=24, min_value=1, max_value=300)


class ShareInput(serializers.Serializer):
    minutes = serializers.IntegerField(
        default=terminals.SHARED_MINUTES, min_value=1, max_value=terminals.MAX_MINUTES
    )


class ShareSerializer(serializers.Serializer):
    url = serializers.URLField(
        help_text="For members of the workspace. They can watch, but not type."
    )
    token = serializers.CharField(help_text="Shown once. Pass it as `?token=` to the WebSocket.")
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
        """Admins see all terminals of the workspace, others their own."""
        return super().get_queryset() & terminals.visible_to(self.principal)

    @extend_schema(request=OpenInput, responses={201: TerminalSerializer})
    def create(self, request: Request) -> Response:
        """Open a shell in the sandbox of a session, or of a workflow's latest session or task."""
        made = terminals.open_for(self.principal, **validate_body(request, OpenInput))
        return Response(self.get_serializer(made).data, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Close the terminal, with everything that runs in it."""
        terminals.close_terminal(self.get_object(), self.principal)
        return Response(status=204)

    @extend_schema(methods=["POST"], request=ShareInput, responses={201: ShareSerializer})
    @extend_schema(methods=["DELETE"], responses={204: None})
    @action(detail=True, methods=["post", "delete"])
    def share(self, request: Request, pk: str) -> Response:
        """POST: create a link with which members may watch. DELETE: revoke it."""
        terminal = self.get_object()
        if request.method == "DELETE":
            terminals.unshare_terminal(terminal)
            return Response(status=204)
        token, shared = terminals.share_terminal(terminal, **validate_body(request, ShareInput))
        page = request.build_absolute_uri(reverse("terminal", args=[terminal.pk]))
        answer = {"url": f"{page}?token={token}", "token": token}
        return Response({**answer, "expires_at": shared.share_expires}, status=201)
