"""REST: the tool ledger."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.serializers import ExecutionSerializer
from sessions_app.models import ToolExecution
from tenants.api.base import WorkspaceViewSet


class ExecutionFilter(filters.FilterSet):
    session = filters.UUIDFilter(field_name="session_id", label="The id of a session.")
    state = filters.ChoiceFilter(choices=ToolExecution.State.choices)
    name = filters.CharFilter(label="The exact name of a tool.")


class ExecutionViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = ToolExecution.objects.all()
    serializer_class = ExecutionSerializer
    filterset_class = ExecutionFilter

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Calls of tools, the newest first."""
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One call: what was asked, who decided, and what became of it."""
        return super().retrieve(request, *args, **kwargs)
