"""REST endpoints of sessions: create, list, change, fork, export, import, sub-agents, tool usage."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any
from uuid import UUID

import orjson
from django.core.exceptions import RequestDataTooBig
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
    inline_serializer,
)
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.api.base import AgentFilter
from agents.definitions import find_agent
from core.db import read, release_connection
from core.exceptions import Invalid
from core.pagination import NewestFirst, whole_page, whole_page_of
from core.rest import StrictJSONParser, TextField, validate_body
from core.throttling import transfer_slot
from core.validation import read_input
from orchestrator.api.workflows import AcceptedSerializer, describe_workflow
from orchestrator.transfers import start_session_export, start_session_import
from sessions_app import runtime
from sessions_app.api.base import ObjectField, SessionView
from sessions_app.branches import branch
from sessions_app.ledger import tool_use
from sessions_app.live.frames import event_body
from sessions_app.log.transfer import SMALL_BYTES, import_session
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.models.session import SessionQuerySet
from sessions_app.search import find_matches
from sessions_app.sessions import (
    ChatModel,
    archive,
    change_session,
    choose_model,
    delete_chat,
    fork,
)
from sessions_app.subagents.spawns import session_tree
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import principal_of

MAX_METADATA_BYTES = 64_000
JSONL = "application/x-ndjson"
PAGE_ROWS = 500
MAX_IMPORT_BYTES = 100 * 1024 * 1024
#: The event that names the session of an export is its first line.
LONGEST_FIRST_LINE = 10_000_000
NAME_AGENT = "Name the agent of the new session, as in sessions/import/?agent=NAME."
OUTCOME_HELP = (
    "The goal of the session: `statement`, `criteria` (a list of texts), `max_returns` (0 to 5, "
    "2 by default) and, to judge with another model than the agent's, `grader` (`provider`, `model`)."
)

MODEL_HELP = (
    "With `model`: what the session uses in place of its agent's model. Both empty: the agent's."
)


class UsageSerializer(serializers.Serializer):
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost = serializers.DecimalField(
        max_digits=16, decimal_places=8, normalize_output=True, help_text="In US dollars."
    )


class SessionSerializer(serializers.ModelSerializer):
    agent_name = serializers.CharField(source="agent.current.name", default="")
    agent_version = serializers.IntegerField(
        source="agent_version.number", help_text="The number of the agent version that it runs."
    )
    usage = UsageSerializer(source="*")
    queue_length = serializers.IntegerField(help_text="Messages that wait for their run.")
    verdict = serializers.DictField(
        allow_null=True, help_text="The grader's latest verdict on the outcome."
    )

    class Meta:
        model = Session
        fields = [
            "id",
            "agent",
            "agent_name",
            "agent_version",
            "provider",
            "model",
            "environment",
            "session_key",
            "title",
            "metadata",
            "outcome",
            "verdict",
            "status",
            "last_seq",
            "usage",
            "parent",
            "branch_root",
            "branch_of",
            "branch_seq",
            "is_shown",
            "folder",
            "queue_length",
            "created_by",
            "created_at",
            "active_at",
            "archived_at",
        ]
        read_only_fields = fields


class SessionInput(serializers.Serializer):
    agent = TextField(max_length=80, help_text="The agent's id or exact name.")
    session_key = TextField(
        max_length=200,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="The same agent and key always return the same session.",
    )
    environment = TextField(
        max_length=80,
        required=False,
        allow_null=True,
        help_text="The environment's id or name. Default: the agent's environment.",
    )
    title = TextField(max_length=200, required=False, allow_blank=True)
    provider = TextField(max_length=20, required=False, allow_blank=True, help_text=MODEL_HELP)
    model = TextField(max_length=120, required=False, allow_blank=True)
    metadata = ObjectField(max_bytes=MAX_METADATA_BYTES, required=False)
    outcome = ObjectField(required=False, allow_null=True, help_text=OUTCOME_HELP)


@extend_schema_field({"oneOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]})
class VersionField(serializers.IntegerField):
    """The number or the id of an agent version."""

    default_error_messages = {"invalid": "This is neither the number nor the id of a version."}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=1, max_value=2_000_000_000, **kwargs)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        try:
            return UUID(data) if isinstance(data, str) else super().run_validation(data)
        except ValueError:
            return super().run_validation(data)


class SessionChange(serializers.Serializer):
    title = TextField(max_length=200, required=False, allow_blank=True)
    folder = TextField(max_length=60, required=False, allow_blank=True)
    metadata = ObjectField(
        max_bytes=MAX_METADATA_BYTES, required=False, help_text="Replaces all metadata."
    )
    outcome = ObjectField(
        required=False, allow_null=True, help_text=f"{OUTCOME_HELP} Null removes it."
    )
    agent_version = VersionField(
        required=False,
        help_text="The number or id of a version of the same agent. An active run keeps its version.",
    )
    provider = TextField(max_length=20, required=False, allow_blank=True, help_text=MODEL_HELP)
    model = TextField(max_length=120, required=False, allow_blank=True)


def session_rows() -> SessionQuerySet:
    """Return sessions with everything that `SessionSerializer` shows, in one query."""
    queued = Run.objects.filter(session=OuterRef("pk"), status=Run.Status.QUEUED, resumes=False)
    counts = queued.order_by().values("session").annotate(number=Count("pk")).values("number")
    verdicts = SessionEvent.objects.filter(
        session=OuterRef("pk"), type=SessionEvent.Type.OUTCOME_JUDGED
    )
    return Session.objects.select_related("agent__current", "agent_version").annotate(
        queue_length=Coalesce(Subquery(counts), 0),
        verdict=Subquery(verdicts.order_by("-seq").values("payload")[:1]),
    )


def serialize_session(session_id: UUID) -> dict[str, Any]:
    return dict(SessionSerializer(session_rows().get(pk=session_id)).data)


class SessionFilter(filters.FilterSet):
    agent = AgentFilter()
    status = filters.ChoiceFilter(choices=Session.Status.choices)
    parent = filters.UUIDFilter(field_name="parent_id", label="Children of this session.")
    archived = filters.BooleanFilter(
        field_name="archived_at",
        lookup_expr="isnull",
        exclude=True,
        label="List archived sessions instead of active ones.",
    )
    q = filters.CharFilter(method="filter_by_text", label="Words in the title or in any message.")

    def filter_queryset(self, queryset: SessionQuerySet) -> SessionQuerySet:
        rows = super().filter_queryset(queryset)
        return rows if self.form.cleaned_data["archived"] is not None else rows.active()

    def filter_by_text(self, rows: SessionQuerySet, name: str, words: str) -> SessionQuerySet:
        return rows  # `SessionPages` searches, once the rows are sorted


class SessionPages(NewestFirst):
    """Pages of sessions. A search looks for its words in the order of the list."""

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any]:
        self.text = request.query_params.get("q", "").strip()
        return super().paginate_queryset(queryset, request, view)

    def fetch(self, rows: Any, count: int) -> list[Any]:
        if not self.text:
            return super().fetch(rows, count)
        return list(rows.filter(pk__in=list(find_matches(rows, self.text, limit=count))))


class SessionViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = session_rows()
    serializer_class = SessionSerializer
    filterset_class = SessionFilter
    pagination_class = SessionPages
    parser_classes = [StrictJSONParser]

    def filter_queryset(self, queryset: Any) -> Any:
        # Only the list hides archived sessions.
        return super().filter_queryset(queryset) if self.action == "list" else queryset

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the workspace's sessions, newest first."""
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Retrieve a session."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(request=SessionInput, responses={201: SessionSerializer, 200: SessionSerializer})
    def create(self, request: Request) -> Response:
        """Create a session, or return the existing one of this agent and `session_key`."""
        fields = validate_body(request, SessionInput)
        session, is_new = runtime.get_or_create_session(
            fields.pop("agent"), principal=self.principal, model=_model_choice(fields), **fields
        )
        return Response(serialize_session(session.pk), status=201 if is_new else 200)

    @extend_schema(request=SessionChange, responses=SessionSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the title, metadata or outcome, or move to another version of the agent."""
        session: Session = self.get_object()
        changes = validate_body(request, SessionChange)
        if choice := _model_choice(changes):
            choose_model(session, choice)
        change_session(session, **changes)
        return Response(serialize_session(session.pk))

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "forever", bool, description="Delete the chat with its branches, log and files."
            )
        ]
    )
    def destroy(self, request: Request, pk: str) -> Response:
        """Archive a session: stop its run, cancel queued messages and keep the log readable."""
        session = self.get_object()
        if request.query_params.get("forever") == "true":
            delete_chat(self.principal, session)
        else:
            archive(session, self.principal.user_id)
        return Response(status=204)


def _model_choice(fields: dict[str, Any]) -> ChatModel | None:
    """Take the model out of the fields, if they name one."""
    given = {name: fields.pop(name) for name in ("provider", "model") if name in fields}
    return read_input(ChatModel, given) if given else None


WOKEN = inline_serializer("Woken", {"run_id": serializers.UUIDField(allow_null=True)})


class WakeView(SessionView):
    @extend_schema(operation_id="sessions_wake", request=None, responses={202: WOKEN})
    def post(self, request: Request, session_id: UUID) -> Response:
        """Wake the session now. Returns the run that is active or next."""
        return Response({"run_id": runtime.wake(session_id, principal=self.principal)}, status=202)


class ForkInput(serializers.Serializer):
    at_seq = serializers.IntegerField(
        min_value=0, max_value=2**53, help_text="The last event that the new session shares."
    )
    branch = serializers.BooleanField(
        default=False,
        help_text="Whether the new session is a branch of the same chat: with its title and files, "
        "and without a row of its own in the list of chats.",
    )


class ForkView(SessionView):
    @extend_schema(
        operation_id="sessions_fork", request=ForkInput, responses={201: SessionSerializer}
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Create a session that shares the log up to an event and continues independently."""
        session = self.get_session(session_id)
        wanted = validate_body(request, ForkInput)
        if wanted["branch"]:
            forked = branch(session, wanted["at_seq"])
        else:
            forked = fork(session, wanted["at_seq"], self.principal.user_id)
        return Response(serialize_session(forked.pk), status=201)


class BranchSerializer(serializers.Serializer):
    id = serializers.UUIDField()
    parent_id = serializers.UUIDField()
    depth = serializers.IntegerField()
    title = serializers.CharField()
    agent_name = serializers.CharField()
    status = serializers.CharField(help_text="The session's status.")
    task_status = serializers.CharField(
        allow_null=True, help_text="The status of the task that the session was created for."
    )
    tool_use_id = serializers.CharField(allow_null=True)
    task = serializers.CharField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost = serializers.DecimalField(max_digits=16, decimal_places=8)
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    delivered_at = serializers.DateTimeField(allow_null=True)
    pending_approvals = serializers.IntegerField()


class TreeView(SessionView):
    @extend_schema(operation_id="sessions_tree", responses=whole_page_of(BranchSerializer))
    def get(self, request: Request, session_id: UUID) -> Response:
        """List every session below this one, parents before their children."""
        branches = session_tree(self.get_session(session_id).pk)
        return whole_page(BranchSerializer(branches, many=True).data)


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


class ToolAnalyticsView(APIView):
    @extend_schema(
        operation_id="analytics_tools",
        parameters=[OpenApiParameter("days", int, default=30)],
        responses=whole_page_of(ToolUseSerializer),
    )
    def get(self, request: Request) -> Response:
        """Count calls, failures, denials and durations of every tool in the last days."""
        workspace_id = authorise(principal_of(request), "read")
        days = request.query_params.get("days", "30")
        if not days.isdigit() or not 1 <= int(days[:4]) <= 366:
            raise Invalid("`days` must be a number from 1 to 366.")
        return whole_page(ToolUseSerializer(tool_use(workspace_id, int(days)), many=True).data)


# ── Export and import ────────────────────────────────────────────────────────────────────────────


class JsonlRenderer(BaseRenderer):
    """Lets a client accept `application/x-ndjson`. The view writes the body itself."""

    media_type = JSONL
    format = "jsonl"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        return data


class JsonlParser(BaseParser):
    """Returns the body unparsed, for any content type: JSONL has no single media type."""

    media_type = "*/*"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return stream


class ExportView(SessionView):
    verbs = {"post": "read"}
    # JSON comes first, for errors: the view writes the lines itself.
    renderer_classes = [JSONRenderer, JsonlRenderer]

    @extend_schema(
        operation_id="sessions_export",
        parameters=[
            OpenApiParameter("thinking", OpenApiTypes.BOOL, description="Also what models thought.")
        ],
        responses={(200, JSONL): OpenApiResponse(OpenApiTypes.STR, "One event per line.")},
    )
    def get(self, request: Request, session_id: UUID) -> StreamingHttpResponse:
        """Export the log, one event per line."""
        session = self.get_session(session_id)
        thinking = request.query_params.get("thinking", "").lower() in {"true", "1"}
        release_connection()
        return StreamingHttpResponse(
            _export_lines(session.pk, thinking=thinking),
            content_type=JSONL,
            headers={"Content-Disposition": f'attachment; filename="session-{session.pk}.jsonl"'},
        )

    @extend_schema(
        operation_id="sessions_export_start", request=None, responses={202: AcceptedSerializer}
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Start a workflow that writes the log and its messages to files, which become artifacts."""
        session = self.get_session(session_id)
        started = start_session_export(principal_of(request), session)
        return Response(describe_workflow(started), status=202)


async def _export_lines(session_id: UUID, *, thinking: bool) -> AsyncIterator[bytes]:
    """Yield the log a page at a time, so that neither the log nor a connection is held."""
    after = 0
    while page := await read(_page, session_id, after):
        shown = (e for e in page if thinking or e.type != SessionEvent.Type.AGENT_THINKING)
        yield b"".join(orjson.dumps(event_body(event)) + b"\n" for event in shown)
        after = page[-1].seq


def _page(session_id: UUID, after: int) -> list[SessionEvent]:
    return list(SessionEvent.objects.filter(session_id=session_id).after(after)[:PAGE_ROWS])


class ImportForm(serializers.Serializer):
    agent = serializers.CharField(required=False, help_text="May be in the query instead.")
    title = serializers.CharField(required=False)
    file = serializers.FileField(help_text="One event per line.")


class ImportView(APIView):
    parser_classes = [MultiPartParser, JsonlParser]
    largest_body = MAX_IMPORT_BYTES

    @extend_schema(
        operation_id="sessions_import",
        parameters=[
            OpenApiParameter(
                "agent",
                str,
                description="The id or name of the new session's agent. "
                "Default: the agent of the exported session.",
            ),
            OpenApiParameter("title", str, description="The new session's title."),
        ],
        request={JSONL: OpenApiTypes.STR, "multipart/form-data": ImportForm},
        responses={201: SessionSerializer, 202: AcceptedSerializer},
    )
    def post(self, request: Request) -> Response:
        """Create a session from an exported log. All events count as processed: nothing runs.

        A log of more than 2 MB is imported by a workflow, and the answer is 202.
        """
        principal = principal_of(request)
        workspace_id = authorise(principal, "run")
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_IMPORT_BYTES:
            raise RequestDataTooBig
        release_connection()  # Parsing a long form takes a while.
        form = {**request.query_params.dict(), **_form_fields(request)}
        with _import_file(request) as (file, is_small):
            if not form.get("agent"):
                form["agent"] = _agent_of_export(workspace_id, file.readline(LONGEST_FIRST_LINE))
                file.seek(0)
            agent, title = find_agent(workspace_id, form["agent"]), _title(form.get("title", ""))
            if not is_small:
                started = start_session_import(principal, agent.pk, title, file)
                return Response(describe_workflow(started), status=202)
            with transfer_slot(workspace_id):
                session = import_session(
                    agent, iter(file), title=title, created_by_id=principal.user_id
                )
        return Response(serialize_session(session.pk), status=201)


def _agent_of_export(workspace_id: UUID, line: bytes) -> str:
    """Return the id of the agent whose session this line was exported from."""
    try:
        session_id = UUID(orjson.loads(line)["session_id"])
    except (ValueError, TypeError, LookupError):
        raise Invalid(f"The first line is not an exported event. {NAME_AGENT}") from None
    session = Session.objects.for_workspace(workspace_id).filter(pk=session_id).first()
    if session is None:
        raise Invalid(f"The exported session is not in this workspace. {NAME_AGENT}")
    return str(session.agent_id)


def _title(text: str) -> str:
    return serializers.CharField(max_length=200, allow_blank=True).run_validation(text)


def _form_fields(request: Request) -> dict[str, str]:
    data = request.data.dict() if hasattr(request.data, "dict") else {}
    return {name: text for name, text in data.items() if isinstance(text, str)}


@contextmanager
def _import_file(request: Request) -> Iterator[tuple[IO[bytes], bool]]:
    """Yield the uploaded file, or the body itself, and whether it is small."""
    if request.FILES:
        file: Any = request.FILES.get("file")
        if file is None:
            raise Invalid("Send the export in the form field `file`.")
        yield file, file.size <= SMALL_BYTES
        return
    body: Any = request.data
    with tempfile.SpooledTemporaryFile(max_size=SMALL_BYTES) as held:
        if hasattr(body, "readline"):
            shutil.copyfileobj(body, held)
        is_small = held.tell() <= SMALL_BYTES
        held.seek(0)
        yield held, is_small
