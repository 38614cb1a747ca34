"""REST endpoints of approvals and of tool executions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.base import AgentFilter
from core.logging import redact, redact_text
from core.rest import StrictJSONParser, TextField, validate_body
from sessions_app import ledger
from sessions_app.api.base import ObjectField
from sessions_app.approvals.approvals import ApprovalAnswer, answer_approval, is_question
from sessions_app.models import Approval, ToolExecution
from sessions_app.subagents.spawns import session_tree
from tenants.api.base import WorkspaceViewSet
from tools_app.policy.rules import covers
from tools_app.questions import Question
from tools_app.registry import registry

#: Relations that `ApprovalSerializer` reads.
RELATED = ("session", "agent__current", "execution")


class ApprovalInput(serializers.Serializer):
    """The answer to an approval."""

    decision = serializers.ChoiceField(choices=Approval.Decision.choices)
    values = ObjectField(
        required=False,
        allow_null=True,
        default=None,
        help_text="The answers to a question, by the names of the fields in its `form`.",
    )
    scope = serializers.ChoiceField(
        choices=Approval.Scope.choices,
        default=Approval.Scope.ONCE,
        help_text="`session` allows similar calls in all runs of the session; `covers` says which. "
        "`always` adds a rule to the agent's policy and needs the admin permission.",
    )
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")
    input = ObjectField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Arguments to use instead of the requested ones.",
    )


class QuestionFieldSerializer(serializers.Serializer):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    kind = serializers.ChoiceField(choices=["text", "choice", "several", "number", "date", "file"])
    options = serializers.ListField(child=serializers.CharField())
    required = serializers.BooleanField()  # type: ignore[assignment]


class QuestionSerializer(serializers.Serializer):
    question = serializers.CharField()
    fields = QuestionFieldSerializer(many=True)  # type: ignore[assignment]


class ApprovalSerializer(serializers.ModelSerializer):
    """A question to the members of a workspace, and its answer.

    Members who may answer see the exact arguments. For others, likely secrets are redacted.
    """

    kind = serializers.SerializerMethodField(
        help_text="`question`, answered by the decision `answer` with `values`; else `approval`."
    )
    form = serializers.SerializerMethodField(
        help_text="The form of a question: its text and its fields."
    )
    values = serializers.SerializerMethodField(help_text="The answers to a question, by field.")
    session_id = serializers.UUIDField(read_only=True, allow_null=True)
    session_title = serializers.CharField(source="session.title", default="", read_only=True)
    agent_name = serializers.CharField(source="agent.current.name", default="", read_only=True)
    tool = serializers.CharField(
        source="execution.name", default=None, allow_null=True, read_only=True
    )
    tool_use_id = serializers.CharField(
        source="execution.tool_use_id", default=None, allow_null=True, read_only=True
    )
    scope = serializers.ChoiceField(
        choices=Approval.Scope.choices,
        allow_blank=True,
        read_only=True,
        help_text="The scope of the answer. Empty while the approval is pending.",
    )
    covers = serializers.SerializerMethodField(
        help_text="The calls that an answer with scope `session` or `always` would cover."
    )
    resolved_by_name = serializers.CharField(source="resolved_name", read_only=True)

    class Meta:
        model = Approval
        fields = [
            "id",
            "kind",
            "form",
            "values",
            "subject",
            "subject_id",
            "session_id",
            "session_title",
            "agent",
            "agent_name",
            "tool",
            "tool_use_id",
            "title",
            "input",
            "reason",
            "covers",
            "status",
            "scope",
            "rule",
            "edited_input",
            "note",
            "created_by",
            "created_at",
            "expires_at",
            "resolved_by",
            "resolved_by_name",
            "resolved_at",
        ]
        read_only_fields = fields

    def get_kind(self, approval: Approval) -> str:
        return "question" if is_question(approval.execution) else "approval"

    @extend_schema_field(QuestionSerializer(allow_null=True))
    def get_form(self, approval: Approval) -> dict[str, Any] | None:
        if not is_question(approval.execution):
            return None
        return Question.model_validate(approval.input).model_dump()

    @extend_schema_field({"type": "object", "nullable": True, "additionalProperties": True})
    def get_values(self, approval: Approval) -> dict[str, Any] | None:
        return approval.edited_input if is_question(approval.execution) else None

    def get_covers(self, approval: Approval) -> str:
        return covers(registry.get(approval.execution.name)) if approval.execution else ""

    def to_representation(self, instance: Approval) -> dict[str, Any]:
        data: dict[str, Any] = super().to_representation(instance)
        if not self.context.get("may_run"):
            for field in ("input", "edited_input", "form", "values"):
                data[field] = redact(data[field])
            for field in ("title", "rule", "note"):
                data[field] = redact_text(data[field])
        return data


class ApprovalFilter(filters.FilterSet):
    status = filters.ChoiceFilter(choices=Approval.Status.choices)
    session = filters.UUIDFilter(method="filter_by_session", label="The id of a session.")
    agent = AgentFilter()
    tree = filters.BooleanFilter(
        method="filter_by_tree", label="With `session`: include the sessions below it."
    )

    def filter_by_session(
        self, rows: QuerySet[Approval], _name: str, session_id: UUID
    ) -> QuerySet[Approval]:
        # With `tree`, `filter_by_tree` filters by the session instead.
        return rows if self.form.cleaned_data.get("tree") else rows.filter(session_id=session_id)

    def filter_by_tree(
        self, rows: QuerySet[Approval], _name: str, value: bool
    ) -> QuerySet[Approval]:
        top = self.form.cleaned_data.get("session")
        if not (value and top):
            return rows
        return rows.filter(session_id__in=[top, *(branch.id for branch in session_tree(top))])


class ApprovalViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Approval.objects.select_related(*RELATED)
    serializer_class = ApprovalSerializer
    filterset_class = ApprovalFilter
    parser_classes = [StrictJSONParser]

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "may_run": self.principal.may("run")}

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List approvals, newest first."""
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Retrieve an approval."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(
        operation_id="approvals_answer", request=ApprovalInput, responses=ApprovalSerializer
    )
    def answer(self, request: Request, pk: str) -> Response:
        """Allow or deny. Only the first answer counts: a later one gets 409 and who was first."""
        approval: Approval = self.get_object()
        answer = ApprovalAnswer(**validate_body(request, ApprovalInput))
        resolved = answer_approval(approval, answer, self.principal)
        current = self.get_queryset().get(pk=resolved.approval.pk)
        return Response(self.get_serializer(current).data)


class ExecutionSerializer(serializers.ModelSerializer):
    """A tool call. Likely secrets are redacted."""

    session_id = serializers.UUIDField(read_only=True)
    run_id = serializers.UUIDField(
        read_only=True, allow_null=True, help_text="Null for a call that a workflow made."
    )

    class Meta:
        model = ToolExecution
        fields = [
            "id",
            "session_id",
            "run_id",
            "workflow_id",
            "tool_use_id",
            "name",
            "input",
            "ownership",
            "decision",
            "decided_by",
            "read_only",
            "idempotent",
            "state",
            "output",
            "error",
            "attempts",
            "retries",
            "created_by",
            "created_at",
            "started_at",
            "finished_at",
        ]
        read_only_fields = fields

    def to_representation(self, instance: ToolExecution) -> dict[str, Any]:
        data: dict[str, Any] = super().to_representation(instance)
        return {**data, **{name: redact(data[name]) for name in ("input", "output", "error")}}


class VerifyInput(serializers.Serializer):
    took_effect = serializers.BooleanField(help_text="Whether the call took effect.")
    output = serializers.JSONField(
        required=False, allow_null=True, default=None, help_text="The call's output, if known."
    )
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")


class RetryInput(serializers.Serializer):
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")


class ExecutionFilter(filters.FilterSet):
    session = filters.UUIDFilter(field_name="session_id", label="The id of a session.")
    workflow = filters.UUIDFilter(field_name="workflow_id", label="The id of a workflow.")
    agent = AgentFilter("session__agent")
    state = filters.ChoiceFilter(choices=ToolExecution.State.choices)
    tool = filters.CharFilter(field_name="name", label="The exact name of a tool.")
    name = filters.CharFilter(label="An alias of `tool`.")


class ExecutionViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = ToolExecution.objects.all()
    serializer_class = ExecutionSerializer
    filterset_class = ExecutionFilter
    parser_classes = [StrictJSONParser]

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List tool calls, newest first."""
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Retrieve a tool call: its input, the decision about it and its result."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(request=VerifyInput, responses=ExecutionSerializer)
    @action(detail=True, methods=["post"])
    def verify(self, request: Request, pk: str) -> Response:
        """Record whether a call of unknown outcome took effect. Nothing is run."""
        call: ToolExecution = self.get_object()
        verified = ledger.verify(call, self.principal, **validate_body(request, VerifyInput))
        return Response(self.get_serializer(verified).data)

    @extend_schema(request=RetryInput, responses={202: ExecutionSerializer})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Run a call of unknown outcome again, with its stored arguments, in a new run."""
        call: ToolExecution = self.get_object()
        options = validate_body(request, RetryInput)
        queued, run_id = ledger.retry(call, self.principal, **options)
        return Response({**self.get_serializer(queued).data, "run_id": str(run_id)}, status=202)
