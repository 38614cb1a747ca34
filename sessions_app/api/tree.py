"""REST: the tree below a session, and how tools fare."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from config.faults import Invalid
from sessions_app.analytics import tool_use
from sessions_app.api.door import SessionDoor
from sessions_app.tree import tree_of
from tenants.access import authorise
from tenants.api.whole import whole_page, whole_page_of
from tenants.authentication import principal_of


class BranchSerializer(serializers.Serializer):
    id = serializers.UUIDField()
    parent_id = serializers.UUIDField()
    depth = serializers.IntegerField()
    title = serializers.CharField()
    agent_name = serializers.CharField()
    status = serializers.CharField(help_text="Of the session.")
    task_status = serializers.CharField(allow_null=True, help_text="Of the task it was made for.")
    tool_use_id = serializers.CharField(allow_null=True)
    task = serializers.CharField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost = serializers.DecimalField(max_digits=16, decimal_places=8)
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    delivered_at = serializers.DateTimeField(allow_null=True)
    pending_approvals = serializers.IntegerField()


class ToolUseSerializer(serializers.Serializer):
    name = serializers.CharField()
    calls = serializers.IntegerField()
    completed = serializers.IntegerField()
    failed = serializers.IntegerField()
    denied = serializers.IntegerField()
    cancelled = serializers.IntegerField()
    unknown = serializers.IntegerField()
    asked = serializers.IntegerField()
    p50_ms = serializers.FloatField(allow_null=True)
    p95_ms = serializers.FloatField(allow_null=True)


class TreeView(SessionDoor):
    @extend_schema(operation_id="sessions_tree", responses=whole_page_of(BranchSerializer))
    def get(self, request: Request, session_id: UUID) -> Response:
        """Every session below this one, a parent before its children."""
        branches = tree_of(self.find(session_id).pk)
        return whole_page(BranchSerializer(branches, many=True).data)


class ToolAnalyticsView(APIView):
    @extend_schema(
        operation_id="analytics_tools",
        parameters=[OpenApiParameter("days", int, default=30)],
        responses=whole_page_of(ToolUseSerializer),
    )
    def get(self, request: Request) -> Response:
        """Calls, failures, refusals and durations of every tool in the last days."""
        workspace_id = authorise(principal_of(request), "read")
        days = request.query_params.get("days", "30")
        if not days.isdigit() or not 1 <= int(days[:4]) <= 366:
            raise Invalid("days is a number from 1 to 366.")
        return whole_page(ToolUseSerializer(tool_use(workspace_id, int(days)), many=True).data)
