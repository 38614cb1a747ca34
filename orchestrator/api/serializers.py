"""The shapes of workflows' REST doors."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from orchestrator.engine.attempts import attempts_of
from orchestrator.models import Step, Workflow, WorkflowEvent
from orchestrator.streams import told_of
from sessions_app.api.body import ObjectField
from tenants.api.fields import PatternField, TextField

JSON = {"description": "Any JSON value.", "nullable": True}


class StartInput(serializers.Serializer):
    name = TextField(max_length=100, help_text="A registered workflow.")
    params = ObjectField(required=False, default=dict)
    id = TextField(
        max_length=200,
        required=False,
        allow_null=True,
        help_text="Your own name for it. The same id, name and params start it once.",
    )
    agent = TextField(
        max_length=80,
        required=False,
        allow_null=True,
        help_text="The agent on whose behalf it runs: its id or exact name.",
    )
    priority = serializers.IntegerField(min_value=-100, max_value=100, default=0)
    concurrency_key = PatternField(
        r"^[^\x00]*$",
        max_length=150,
        required=False,
        allow_blank=True,
        default="",
        help_text="Of the workflows with the same key, one runs at a time.",
    )


class SendInput(serializers.Serializer):
    type = PatternField(r"^[^\x00]+$", max_length=100)
    payload = serializers.JSONField(required=False, default=None)


class AnswerInput(serializers.Serializer):
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")
    step = TextField(
        max_length=200,
        required=False,
        allow_blank=True,
        default="",
        help_text="The name of the step that waits; needed by nobody who has only one.",
    )


class TerminateInput(serializers.Serializer):
    rollback = serializers.BooleanField(default=False, help_text="Undo what was done.")


class RestartInput(serializers.Serializer):
    from_step = TextField(
        max_length=200,
        required=False,
        allow_blank=True,
        allow_null=True,
        default="",
        help_text="Keep the results of the steps before this one.",
    )
    nth = serializers.IntegerField(min_value=1, max_value=10_000, default=1)


class ErrorSerializer(serializers.Serializer):
    code = serializers.CharField()
    message = serializers.CharField()


class AttemptSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    status = serializers.CharField()
    error = ErrorSerializer(allow_null=True)
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class StepSerializer(serializers.ModelSerializer):
    result = serializers.SerializerMethodField()
    error = ErrorSerializer(allow_null=True)
    attempts = serializers.SerializerMethodField()

    class Meta:
        model = Step
        fields = [
            "position",
            "name",
            "nth",
            "kind",
            "status",
            "result",
            "error",
            "detail",
            "attempts",
            "retry_at",
            "wake_at",
            "started_at",
            "finished_at",
        ]

    @extend_schema_field(JSON)
    def get_result(self, step: Step) -> Any:
        return step.output

    @extend_schema_field(AttemptSerializer(many=True))
    def get_attempts(self, step: Step) -> Any:
        return AttemptSerializer(attempts_of(step), many=True).data


class ProgressSerializer(serializers.Serializer):
    step = serializers.CharField()
    status = serializers.CharField()
    message = serializers.CharField()
    percent = serializers.FloatField(allow_null=True)
    eta_seconds = serializers.FloatField(allow_null=True)


class WorkflowSerializer(serializers.ModelSerializer):
    """`id` is the client's own, if it gave one; `workflow_id` is always the server's."""

    id = serializers.CharField(source="key", help_text="What it is found by.")
    workflow_id = serializers.UUIDField(source="pk", help_text="How frames and approvals name it.")
    error = ErrorSerializer(allow_null=True)
    progress = ProgressSerializer(allow_null=True)

    class Meta:
        model = Workflow
        fields = [
            "id",
            "workflow_id",
            "key",
            "name",
            "version",
            "status",
            "params",
            "progress",
            "error",
            "agent",
            "parent",
            "priority",
            "generation",
            "recoveries",
            "is_dead",
            "wake_at",
            "last_seq",
            "created_by",
            "created_at",
            "started_at",
            "finished_at",
        ]


class WorkflowDetailSerializer(WorkflowSerializer):
    result = serializers.SerializerMethodField()
    steps = StepSerializer(many=True)

    class Meta(WorkflowSerializer.Meta):
        fields = [*WorkflowSerializer.Meta.fields, "result", "steps"]

    @extend_schema_field(JSON)
    def get_result(self, workflow: Workflow) -> Any:
        return workflow.output


class WorkflowEventSerializer(serializers.Serializer):
    seq = serializers.IntegerField()
    type = serializers.CharField()
    node = serializers.SerializerMethodField()
    payload = serializers.DictField()
    created_at = serializers.DateTimeField()

    def get_node(self, event: WorkflowEvent) -> str | None:
        """Of a canvas: which node it is about."""
        return told_of(event).get("node")


class SentSerializer(serializers.Serializer):
    seq = serializers.IntegerField(help_text="Where in the workflow's log it stands.")


class DefinitionSerializer(serializers.Serializer):
    name = serializers.CharField()
    version = serializers.IntegerField()
    description = serializers.CharField()
    params = serializers.DictField(allow_null=True, help_text="A JSON Schema.")
