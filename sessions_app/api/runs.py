"""REST endpoints of runs: start, list, wait, cancel and retry, and the queue of a session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import Error, transaction
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    extend_schema,
    extend_schema_field,
    inline_serializer,
)
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.channel_layer import watched
from core.db import read, release_connection
from core.exceptions import Fault, Invalid, NotFound
from core.pagination import whole_page, whole_page_of
from core.rest import (
    JSONRenderer,
    StrictJSONParser,
    TextField,
    json_response,
    represent,
    validate_body,
)
from sessions_app import runtime
from sessions_app.accept import resend_queued
from sessions_app.api.base import (
    OverridesSerializer,
    QueueOptions,
    SessionView,
    client_dedupe_key,
)
from sessions_app.lanes.queued_messages import edit_run, list_queue, move_run, remove_run
from sessions_app.lanes.signals import FINISHED, POLL_SECONDS
from sessions_app.live.publisher import session_group
from sessions_app.log.payloads import MAX_TEXT_LENGTH
from sessions_app.models import Run, Session
from sessions_app.sessions import cancel_run, retry_run
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import principal_of

log = structlog.get_logger(__name__)

MAX_WAIT_SECONDS = 60


class RuntimeInput(QueueOptions):
    agent = TextField(max_length=80, help_text="The agent's id or exact name.")
    session_key = TextField(max_length=200)
    message = TextField(max_length=MAX_TEXT_LENGTH, trim_whitespace=False)
    overrides = OverridesSerializer(required=False, allow_null=True)


ENQUEUED = inline_serializer(
    "Enqueued",
    {
        "run_id": serializers.UUIDField(allow_null=True),
        "session_id": serializers.UUIDField(),
        "accepted_at": serializers.DateTimeField(),
    },
)


class RuntimeView(APIView):
    parser_classes = [StrictJSONParser]

    @extend_schema(operation_id="runtime", request=RuntimeInput, responses={202: ENQUEUED})
    def post(self, request: Request) -> HttpResponse:
        """Send a message to the session of this agent and key, creating it if needed."""
        fields = validate_body(request, RuntimeInput)
        enqueued = runtime.enqueue_agent_run(
            fields.pop("agent"),
            fields.pop("session_key"),
            fields.pop("message"),
            principal=principal_of(request),
            dedupe_key=client_dedupe_key(request),
            **fields,
        )
        return json_response(vars(enqueued), status=202)


class RunSerializer(serializers.ModelSerializer):
    session_id = serializers.UUIDField(read_only=True)
    overrides = serializers.SerializerMethodField()

    class Meta:
        model = Run
        fields = [
            "id",
            "session_id",
            "status",
            "attempts",
            "result",
            "error",
            "usage",
            "stop_reason",
            "on_busy",
            "priority",
            "overrides",
            "created_by",
            "created_at",
            "started_at",
            "finished_at",
        ]
        read_only_fields = fields

    @extend_schema_field(OverridesSerializer)
    def get_overrides(self, run: Run) -> dict[str, Any]:
        """Return what the run does differently from its agent; empty if nothing."""
        return run.wishes if run.purpose == Run.Purpose.TURN else {}


WAIT_PARAMETER = OpenApiParameter(
    "wait",
    OpenApiTypes.INT,
    description="Respond when the run is over, at the latest after this many seconds: "
    f"0 to {MAX_WAIT_SECONDS}.",
)


class RunFilter(filters.FilterSet):
    session = filters.UUIDFilter(field_name="session_id", label="The id of a session.")
    status = filters.ChoiceFilter(choices=Run.Status.choices)


class RunViewSet(ListModelMixin, WorkspaceViewSet):
    queryset = Run.objects.all()
    serializer_class = RunSerializer
    filterset_class = RunFilter

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the workspace's runs, newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(parameters=[WAIT_PARAMETER], responses=RunSerializer)
    def retrieve(self, request: Request, pk: str) -> HttpResponseBase:
        """Retrieve a run. With `wait`, the response comes when the run is over."""
        run: Run = self.get_object()
        seconds = _wait_seconds(request)
        if not seconds or run.status in FINISHED:
            return Response(represent(RunSerializer, run))
        # The wait holds no pooled connection, and the body is awaited outside of any thread.
        release_connection()
        return StreamingHttpResponse(_wait_for_run(run, seconds), content_type="application/json")

    @extend_schema(request=None, responses={202: RunSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Stop a running run, or remove a queued one."""
        run: Run = self.get_object()
        cancel_run(run, self.principal.user_id)
        return self._accepted(run)

    @extend_schema(request=None, responses={202: RunSerializer})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Queue a failed or dead run again. It continues from the log, not from the beginning."""
        run: Run = self.get_object()
        retry_run(run)
        return self._accepted(run)

    def _accepted(self, run: Run) -> Response:
        run.refresh_from_db()
        return Response(represent(RunSerializer, run), status=202)


def _wait_seconds(request: Request) -> float:
    try:
        seconds = float(request.query_params.get("wait", "0"))
    except ValueError:
        seconds = -1
    # The comparison is also false for NaN.
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise Invalid(f"`wait` must be a number of seconds from 0 to {MAX_WAIT_SECONDS}.")
    return seconds


async def _wait_for_run(run: Run, seconds: float) -> AsyncIterator[bytes]:
    """Yield the run as JSON when it is over or the time is up."""
    try:
        run = await watched(
            session_group(run.session_id),
            partial(read, _run_if_over, run),
            is_over=lambda found: found.status in FINISHED,
            seconds=seconds,
            every=POLL_SECONDS,
        )
    except (Fault, Error) as error:
        # The HTTP status is sent already, so answer with the run as it was last read.
        log.warning("wait_ended", run_id=str(run.pk), error=str(error).strip())
    yield JSONRenderer().render(represent(RunSerializer, run))


def _run_if_over(run: Run) -> Run:
    """Return the run as it is now if it is over, else as it was."""
    return Run.objects.filter(pk=run.pk, status__in=FINISHED).first() or run


class QueuedSerializer(serializers.Serializer):
    """A queued message."""

    run_id = serializers.UUIDField()
    position = serializers.IntegerField()
    text = serializers.CharField()
    on_busy = serializers.ChoiceField(choices=Run.OnBusy.choices)
    priority = serializers.IntegerField()
    message_seqs = serializers.ListField(child=serializers.IntegerField())
    created_at = serializers.DateTimeField()


class QueueChange(serializers.Serializer):
    text = TextField(max_length=MAX_TEXT_LENGTH, required=False, trim_whitespace=False)
    position = serializers.IntegerField(
        min_value=0, max_value=2**31 - 1, required=False, help_text="0 is the next to run."
    )
    on_busy = serializers.ChoiceField(
        ["steer", "interrupt"],
        required=False,
        help_text="Send it now: add it to the current answer, or stop that answer first.",
    )


QUEUE = whole_page_of(
    QueuedSerializer,
    last_seq=serializers.IntegerField(
        help_text="The log up to this seq explains why a message left the queue."
    ),
)


def _queue_response(session: Session) -> Response:
    results = QueuedSerializer(list_queue(session), many=True).data
    # Read after the queue, so the log up to `last_seq` has everything that changed the queue.
    session.refresh_from_db(fields=["last_seq"])
    return whole_page(results, last_seq=session.last_seq)


class ChangedSerializer(QueuedSerializer):
    """The whole queue, and the changed message if it is still queued."""

    results = QueuedSerializer(many=True)
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    last_seq = serializers.IntegerField()

    def get_fields(self) -> dict[str, serializers.Field]:
        # The message's own fields are absent once a run took it.
        fields: dict[str, serializers.Field] = super().get_fields()
        for name in QueuedSerializer().get_fields():
            fields[name].required = False
        return fields


class QueueView(SessionView):
    @extend_schema(operation_id="sessions_queue_list", responses=QUEUE)
    def get(self, request: Request, session_id: UUID) -> Response:
        """List queued messages in the order in which they will run."""
        return _queue_response(self.get_session(session_id))


class QueuedView(SessionView):
    def get_session_with_run(self, session_id: UUID, run_id: UUID) -> Session:
        session = self.get_session(session_id)
        if not Run.objects.filter(session=session, pk=run_id).exists():
            raise NotFound
        return session

    @extend_schema(
        operation_id="sessions_queue_change", request=QueueChange, responses=ChangedSerializer
    )
    def patch(self, request: Request, session_id: UUID, run_id: UUID) -> Response:
        """Edit a queued message, move it, or send it now.

        Returns the whole queue, and the message's own fields while it is still queued.
        """
        session = self.get_session_with_run(session_id, run_id)
        changes = validate_body(request, QueueChange)
        with transaction.atomic():
            if "text" in changes:
                edit_run(session, run_id, changes["text"], self.principal.user_id)
            if "position" in changes:
                move_run(session, run_id, changes["position"])
            if "on_busy" in changes:
                resend_queued(self.principal, session_id, run_id, changes["on_busy"])
        queue = _queue_response(session)
        changed = [row for row in queue.data["results"] if row["run_id"] == str(run_id)]
        return Response({**(changed[0] if changed else {}), **queue.data})

    @extend_schema(operation_id="sessions_queue_remove", responses={204: None})
    def delete(self, request: Request, session_id: UUID, run_id: UUID) -> Response:
        """Remove a queued message."""
        remove_run(self.get_session_with_run(session_id, run_id), run_id, self.principal.user_id)
        return Response(status=204)
