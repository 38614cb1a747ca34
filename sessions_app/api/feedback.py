"""REST endpoints of feedback: a person rates an answer, and admins read all ratings."""

from __future__ import annotations

from uuid import UUID

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from core.rest import StrictJSONParser, TextField, validate_body
from core.validation import read_input
from sessions_app.api.base import SessionView
from sessions_app.feedback import FeedbackInput, rate_answer, withdraw_rating
from sessions_app.models import Feedback
from tenants.api.base import WorkspaceViewSet


class FeedbackSerializer(serializers.ModelSerializer):
    agent = serializers.UUIDField(source="session.agent_id")
    agent_version = serializers.IntegerField(source="session.agent_version.number")

    class Meta:
        model = Feedback
        fields = [
            "id",
            "session",
            "seq",
            "agent",
            "agent_version",
            "person",
            "rating",
            "reason",
            "created_at",
        ]
        read_only_fields = fields


class RatingSerializer(serializers.Serializer):
    rating = serializers.ChoiceField(choices=[1, -1], help_text="1 is good, -1 is bad.")
    reason = TextField(max_length=500, required=False, allow_blank=True)


class FeedbackFilter(filters.FilterSet):
    rating = filters.ChoiceFilter(choices=Feedback.Rating.choices)
    session = filters.UUIDFilter(field_name="session_id")
    agent = filters.UUIDFilter(field_name="session__agent_id")


class FeedbackViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """The ratings of answers in this workspace, newest first. Only admins read them."""

    queryset = Feedback.objects.select_related("session__agent_version")
    serializer_class = FeedbackSerializer
    filterset_class = FeedbackFilter
    verbs = {"list": "admin", "retrieve": "admin"}


class AnswerFeedbackView(SessionView):
    parser_classes = [StrictJSONParser]

    @extend_schema(
        operation_id="sessions_feedback_update",
        request=RatingSerializer,
        responses=FeedbackSerializer,
    )
    def put(self, request: Request, session_id: UUID, seq: int) -> Response:
        """Rate an answer, in place of the caller's earlier rating."""
        session = self.get_session(session_id)
        given = read_input(FeedbackInput, validate_body(request, RatingSerializer))
        return Response(FeedbackSerializer(rate_answer(self.principal, session, seq, given)).data)

    @extend_schema(operation_id="sessions_feedback_destroy", responses={204: None})
    def delete(self, request: Request, session_id: UUID, seq: int) -> Response:
        """Withdraw the caller's rating of an answer."""
        withdraw_rating(self.principal, self.get_session(session_id), seq)
        return Response(status=204)
