"""Shared parts of the sessions API: views, fields, request bodies and pages of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from agents.models import AgentVersion
from agents.providers.registry import PROVIDERS
from core.exceptions import Invalid
from core.rest import StrictJSONParser
from core.validation import UNFIT, can_be_stored, errors_under, read_input
from sessions_app import accept
from sessions_app.live.reader import parse_cursor
from sessions_app.log.payloads import RunOverrides
from sessions_app.models import Run, Session
from sessions_app.sessions import find_session
from tenants.access import Principal
from tenants.authentication import principal_of, required_verb
from tools_app.models import RULE_LENGTH
from tools_app.policy.storage import MOST_RULES
from tools_app.workspace_tools import CLIENT_TOOL_NAME

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
#: The query parameters of a page of a log.
LOG_PARAMETERS = [
    OpenApiParameter("after", OpenApiTypes.INT, description="Begin after this seq. Default: 0."),
    OpenApiParameter(
        "limit",
        OpenApiTypes.INT,
        description=f"Maximum number of results, up to {MAX_LIMIT}. Default: {DEFAULT_LIMIT}.",
    ),
]


class SessionView(APIView):
    """A view of one session. Views look the session up before they read the request's body."""

    parser_classes = [StrictJSONParser]

    @property
    def principal(self) -> Principal:
        return principal_of(self.request)

    def get_session(self, session_id: UUID) -> Session:
        return find_session(self.principal, session_id, required_verb(self.request, self))


class ObjectField(serializers.DictField):
    """A JSON object of a limited size that PostgreSQL can store."""

    default_error_messages = {"unfit": UNFIT, "too_large": "This is larger than {max_bytes} bytes."}

    def __init__(self, *, max_bytes: int = 1_000_000, **kwargs: Any) -> None:
        self.max_bytes = max_bytes
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> dict[Any, Any]:
        value = super().to_internal_value(data)
        if not can_be_stored(value):
            self.fail("unfit")
        if len(orjson.dumps(value)) > self.max_bytes:
            self.fail("too_large", max_bytes=f"{self.max_bytes:,}")
        return value


class QueueOptions(serializers.Serializer):
    """What to do with a message that arrives while a run is active, and its priority."""

    on_busy = serializers.ChoiceField(choices=Run.OnBusy.choices, default=Run.OnBusy.FOLLOWUP)
    priority = serializers.IntegerField(min_value=-100, max_value=100, default=0)


class ClientToolSerializer(serializers.Serializer):
    """A tool that the sender of a message runs itself."""

    name = serializers.RegexField(CLIENT_TOOL_NAME)
    description = serializers.CharField(max_length=8_000, required=False, allow_blank=True)
    input_schema = serializers.DictField(required=False, help_text="A JSON Schema of an object.")


class OverridesSerializer(serializers.Serializer):
    """What this run does differently from its agent. Other runs of the session are not affected.

    The run that a message starts keeps its overrides. A message that joins a run (`steer`,
    `collect`) is answered with the overrides of that run; its own count only if it gets a run of
    its own after all.
    """

    provider = serializers.ChoiceField(
        choices=[(name, factory.label) for name, factory in PROVIDERS.items()],
        required=False,
        help_text="By default the provider that is known for the model, or else the agent's.",
    )
    model = serializers.CharField(
        max_length=120, required=False, help_text="By default the provider's default model."
    )
    system_prompt = serializers.CharField(
        required=False,
        allow_blank=True,
        help_text="Added to the agent's own instructions. At most 100,000 bytes.",
    )
    system_prompt_mode = serializers.ChoiceField(
        choices=["append", "replace"],
        required=False,
        help_text="`replace` uses `system_prompt` alone and needs the permission to build.",
    )
    tools = serializers.ListField(
        child=serializers.CharField(max_length=RULE_LENGTH),
        max_length=MOST_RULES,
        required=False,
        help_text="Only these tools, groups (`group:web`) or rules (`exec(git status*)`), of those "
        "that the policy allows. An empty list means no tools.",
    )
    max_tokens = serializers.IntegerField(
        min_value=1, max_value=10_000_000, required=False, help_text="The longest answer."
    )
    temperature = serializers.FloatField(min_value=0, max_value=2, required=False)
    client_tools = ClientToolSerializer(
        many=True,
        required=False,
        help_text="Tools that the sender runs itself, beside the agent's. Their calls arrive as "
        "`agent.custom_tool_use`. At most 128.",
    )
    effort = serializers.ChoiceField(
        choices=AgentVersion.Effort.choices,
        required=False,
        help_text="How much the model thinks before it answers.",
    )
    response_schema = ObjectField(
        required=False,
        help_text="A JSON Schema that the answer must fit: `result.data` of the run.",
    )

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        with errors_under("overrides"):
            return read_input(RunOverrides, data).model_dump(mode="json", exclude_none=True)


def client_dedupe_key(request: Request) -> str | None:
    """Return the caller's Idempotency-Key as a dedupe key for the log.

    The stored response makes a repetition cheap; this key makes it safe if that response was lost.
    """
    return accept.client_dedupe_key(principal_of(request), request.META.get("HTTP_IDEMPOTENCY_KEY"))


@dataclass(frozen=True, kw_only=True)
class LogRange:
    """The part of a log that a request asks for: `?after=SEQ&limit=N`."""

    after: int
    limit: int

    @classmethod
    def from_request(cls, request: Request) -> LogRange:
        query = request.query_params
        limit = query.get("limit", str(DEFAULT_LIMIT))
        if not limit.isascii() or not limit.isdigit() or int(limit[:9]) < 1:
            raise Invalid(f"`limit` must be a number from 1 to {MAX_LIMIT}.")
        after = parse_cursor(query.get("after", "0"))
        return cls(after=after, limit=min(int(limit[:9]), MAX_LIMIT))


def log_page(request: Request, log_range: LogRange, rows: Sequence[Any]) -> Response:
    """Return a page of a log. `rows` has one more than the limit if there is a next page."""
    results, following = list(rows[: log_range.limit]), None
    if len(rows) > log_range.limit:
        current = request.build_absolute_uri()
        following = replace_query_param(current, "after", results[-1]["seq"])
    # A log is read forwards only. Every list has `previous`, so this one has it too.
    return Response({"results": results, "next": following, "previous": None})


def log_page_schema(serializer: type[serializers.Serializer]) -> serializers.Serializer:
    return inline_serializer(
        f"{serializer.__name__.removesuffix('Serializer')}LogPage",
        {
            "results": serializer(many=True),
            "next": serializers.URLField(allow_null=True, help_text="The next page."),
            "previous": serializers.URLField(
                allow_null=True, help_text="Always null: a log is read forwards."
            ),
        },
    )
