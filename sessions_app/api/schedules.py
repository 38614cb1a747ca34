"""REST endpoints of schedules and their firings."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.models import Agent
from core.rest import OwnSerializer
from sessions_app.models import Firing, Schedule, Session
from sessions_app.schedules import schedules, timing
from tenants.access import authorise
from tenants.api.base import OwnedRelatedField, RemoveMixin, WorkspaceViewSet


class ScheduleSerializer(OwnSerializer):
    agent = OwnedRelatedField(queryset=Agent.objects.offered(), required=False)
    session = OwnedRelatedField(
        queryset=Session.objects.filter(archived_at=None), required=False, allow_null=True
    )
    at = serializers.DateTimeField(
        source="next_at",
        required=False,
        allow_null=True,
        help_text="When it is due next, or null if it is over. Required for `once`.",
    )

    class Meta:
        model = Schedule
        fields = [
            "id",
            "name",
            "task",
            "agent",
            "session",
            "message",
            "kind",
            "at",
            "interval_seconds",
            "cron",
            "timezone",
            "heartbeat",
            "asked_by",
            "last_at",
            "paused_at",
            "created_by",
            "created_at",
        ]
        read_only_fields = ["asked_by", "last_at", "paused_at", "created_by"]
        # The service says what is missing; a constraint would make the agent required.
        validators: list[Any] = []


class FiringSerializer(serializers.ModelSerializer):
    class Meta:
        model = Firing
        fields = [
            "id", "due_at", "outcome", "missed", "session_id", "run_id", "note", "created_at",
        ]  # fmt: skip


class ScheduleViewSet(ListModelMixin, RetrieveModelMixin, RemoveMixin, WorkspaceViewSet):
    """Messages that are sent later: once, at an interval, or by a cron expression."""

    queryset = Schedule.objects.all()
    serializer_class = ScheduleSerializer
    filterset_fields = ["agent", "session", "kind"]

    @extend_schema(responses={201: ScheduleSerializer})
    def create(self, request: Request) -> Response:
        """Create a schedule. Without a session, each firing starts a new one."""
        bound = ScheduleSerializer(data=request.data, context=self.get_serializer_context())
        bound.is_valid(raise_exception=True)
        schedule = schedules.create_schedule(
            workspace_id=authorise(self.principal, "run"),
            created_by=self.principal.user,
            **bound.validated_data,
        )
        return Response(ScheduleSerializer(schedule).data, status=201)

    @extend_schema(responses=ScheduleSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the message or the timing. A change of the message keeps the next time."""
        schedule = self.get_object()
        bound = ScheduleSerializer(
            schedule, data=request.data, partial=True, context=self.get_serializer_context()
        )
        bound.is_valid(raise_exception=True)
        changed = schedules.change_schedule(schedule, **bound.validated_data)
        return Response(ScheduleSerializer(changed).data)

    @extend_schema(request=None, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Pause the schedule until it is resumed."""
        schedule = self.get_object()
        timing.pause(schedule)
        return Response(ScheduleSerializer(schedule).data)

    @extend_schema(request=None, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Resume the schedule from now. Missed firings are not made up for."""
        schedule = self.get_object()
        timing.resume(schedule)
        return Response(ScheduleSerializer(schedule).data)

    @extend_schema(request=None, responses={201: FiringSerializer})
    @action(detail=True, methods=["post"])
    def run(self, request: Request, pk: str) -> Response:
        """Send the message now, in addition to the scheduled times."""
        firing = schedules.run_now(self.get_object())
        return Response(FiringSerializer(firing).data, status=201)

    @extend_schema(responses=FiringSerializer(many=True))
    @action(detail=True, methods=["get"])
    def firings(self, request: Request, pk: str) -> Response:
        """List the schedule's firings and their outcomes, newest first."""
        rows = Firing.objects.filter(schedule=self.get_object())
        page: Any = self.paginate_queryset(rows)
        return self.get_paginated_response(FiringSerializer(page, many=True).data)
