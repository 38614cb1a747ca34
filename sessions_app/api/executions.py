"""REST: the tool ledger, and what a person says of calls whose outcome is unknown."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.filters import AgentFilter
from sessions_app import unknown
from sessions_app.api.body import body_of
from sessions_app.api.inputs import RetryInput, VerifyInput
from sessions_app.api.serializers import ExecutionSerializer
from sessions_app.models import ToolExecution
from tenants.api.base import WorkspaceViewSet
from tenants.api.parsing import StrictJSONParser


class ExecutionFilter(filters.FilterSet):
    session = filters.UUIDFilter(field_name="session_id", label="The id of a session.")
    workflow = filters.UUIDFilter(field_name="workflow_id", label="The id of a workflow.")
    agent = AgentFilter("session__agent")
    state = filters.ChoiceFilter(choices=ToolExecution.State.choices)
    tool = filters.CharFilter(field_name="name", label="The exact name of a tool.")
    name = filters.CharFilter(label="The same as `tool`.")


class ExecutionViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = ToolExecution.objects.all()
    serializer_class = ExecutionSerializer
    filterset_class = ExecutionFilter
    parser_classes = [StrictJSONParser]

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Calls of tools, the newest first."""
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One call: what was asked, who decided, and what became of it."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(request=VerifyInput, responses=ExecutionSerializer)
    @action(detail=True, methods=["post"])
    def verify(self, request: Request, pk: str) -> Response:
        """Say whether a call of unknown outcome took effect. Nothing is run."""
        call: ToolExecution = self.get_object()
        found = unknown.verify(call, self.principal, **body_of(request, VerifyInput))
        return Response(self.get_serializer(found).data)

    @extend_schema(request=RetryInput, responses={202: ExecutionSerializer})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Run a call of unknown outcome again, with its stored arguments, in a new run."""
        call: ToolExecution = self.get_object()
        queued, run_id = unknown.retry(call, self.principal, **body_of(request, RetryInput))
        return Response({**self.get_serializer(queued).data, "run_id": str(run_id)}, status=202)
