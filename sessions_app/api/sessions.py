"""REST: sessions, made, found, changed, put away."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.filters import AgentFilter
from sessions_app import runtime
from sessions_app.api.body import body_of
from sessions_app.api.inputs import SessionChange, SessionInput
from sessions_app.api.serializers import SessionSerializer
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.models.session import SessionQuerySet
from sessions_app.sessions import archive, change_session
from sessions_app.transcript import mentioning
from tenants.api.base import WorkspaceViewSet
from tenants.api.parsing import StrictJSONParser


def shown_sessions() -> SessionQuerySet:
    """Sessions with all that their shape tells, in one query however many there are."""
    waiting = Run.objects.filter(session=OuterRef("pk"), status=Run.Status.QUEUED, resumes=False)
    counted = waiting.order_by().values("session").annotate(number=Count("pk")).values("number")
    judged = SessionEvent.objects.filter(
        session=OuterRef("pk"), type=SessionEvent.Type.OUTCOME_JUDGED
    )
    return Session.objects.select_related("agent__current", "agent_version").annotate(
        queue_length=Coalesce(Subquery(counted), 0),
        verdict=Subquery(judged.order_by("-seq").values("payload")[:1]),
    )


def show_session(session_id: UUID) -> dict[str, Any]:
    """One session, as its shape tells it."""
    return dict(SessionSerializer(shown_sessions().get(pk=session_id)).data)


class SessionFilter(filters.FilterSet):
    agent = AgentFilter()
    status = filters.ChoiceFilter(choices=Session.Status.choices)
    parent = filters.UUIDFilter(field_name="parent_id", label="Children of this session.")
    archived = filters.BooleanFilter(
        field_name="archived_at",
        lookup_expr="isnull",
        exclude=True,
        label="See the archived sessions instead of the active ones.",
    )
    q = filters.CharFilter(method="mentions", label="Words of the title or of any message.")

    def filter_queryset(self, queryset: SessionQuerySet) -> SessionQuerySet:
        found = super().filter_queryset(queryset)
        return found if self.form.cleaned_data["archived"] is not None else found.active()

    def mentions(self, rows: SessionQuerySet, name: str, words: str) -> SessionQuerySet:
        return mentioning(rows, words)


class SessionViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = shown_sessions()
    serializer_class = SessionSerializer
    filterset_class = SessionFilter
    parser_classes = [StrictJSONParser]

    def filter_queryset(self, queryset: Any) -> Any:
        """Only the list hides what was archived."""
        return super().filter_queryset(queryset) if self.action == "list" else queryset

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Sessions of the workspace, the newest first."""
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One session."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(request=SessionInput, responses={201: SessionSerializer, 200: SessionSerializer})
    def create(self, request: Request) -> Response:
        """Make a session, or get the one that this agent and `session_key` have already."""
        asked = body_of(request, SessionInput)
        session, is_new = runtime.get_or_create_session(
            asked.pop("agent"), principal=self.principal, **asked
        )
        return Response(show_session(session.pk), status=201 if is_new else 200)

    @extend_schema(request=SessionChange, responses=SessionSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the title, the metadata or the outcome, or move to another version of the agent."""
        session: Session = self.get_object()
        change_session(session, **body_of(request, SessionChange))
        return Response(show_session(session.pk))

    def destroy(self, request: Request, pk: str) -> Response:
        """Archive: what runs is stopped, what waits is cancelled, the log stays readable."""
        archive(self.get_object(), self.principal.user_id)
        return Response(status=204)
