"""REST: runs, looked at, waited for, cancelled, tried again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import structlog
from django.db import Error
from django.http import HttpResponseBase, StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from config.faults import Fault, Invalid
from sessions_app.api.serializers import RunSerializer
from sessions_app.models import Run
from sessions_app.sessions import cancel_run, retry_run
from sessions_app.waiting import OVER, await_run
from tenants.api.base import WorkspaceViewSet
from tenants.off_loop import let_go

log = structlog.get_logger(__name__)

LONGEST_WAIT = 60
WAIT = OpenApiParameter(
    "wait",
    OpenApiTypes.INT,
    description=f"Answer when the run is over, or after so many seconds: 0 to {LONGEST_WAIT}.",
)


class RunFilter(filters.FilterSet):
    session = filters.UUIDFilter(field_name="session_id", label="The id of a session.")
    status = filters.ChoiceFilter(choices=Run.Status.choices)


class RunViewSet(ListModelMixin, WorkspaceViewSet):
    queryset = Run.objects.all()
    serializer_class = RunSerializer
    filterset_class = RunFilter

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Runs of the workspace, the newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(parameters=[WAIT], responses=RunSerializer)
    def retrieve(self, request: Request, pk: str) -> HttpResponseBase:
        """One run. With `wait`, its answer may take as long as the run does."""
        run: Run = self.get_object()
        seconds = seconds_in(request)
        if not seconds or run.status in OVER:
            return Response(RunSerializer(run).data)
        # Nothing of the pool is held meanwhile, and the body is awaited outside of any thread.
        let_go()
        return StreamingHttpResponse(when_over(run, seconds), content_type="application/json")

    @extend_schema(request=None, responses={202: RunSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Stop a run that runs, or take back one that waits."""
        run: Run = self.get_object()
        cancel_run(run, self.principal.user_id)
        return self._accepted(run)

    @extend_schema(request=None, responses={202: RunSerializer})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Queue a failed or dead run again. It goes on from the log, not from the beginning."""
        run: Run = self.get_object()
        retry_run(run)
        return self._accepted(run)

    def _accepted(self, run: Run) -> Response:
        run.refresh_from_db()
        return Response(RunSerializer(run).data, status=202)


def seconds_in(request: Request) -> float:
    try:
        seconds = float(request.query_params.get("wait", "0"))
    except ValueError:
        seconds = -1
    # What is not a number is not in the range either.
    if not 0 <= seconds <= LONGEST_WAIT:
        raise Invalid(f"wait is a number of seconds from 0 to {LONGEST_WAIT}.")
    return seconds


async def when_over(run: Run, seconds: float) -> AsyncIterator[bytes]:
    """The run as JSON, once it is over or the time is up."""
    try:
        run = await await_run(run.pk, seconds)
    except (Fault, Error) as error:
        # The status is sent already. What was last known is a true answer to the question.
        log.warning("wait_ended", run_id=str(run.pk), error=str(error).strip())
    yield JSONRenderer().render(RunSerializer(run).data)
