"""The shapes that sessions' REST doors answer with."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from config.redaction import redact
from sessions_app.models import ResourceAttachment, Run, Session, SessionEvent, ToolExecution


class UsageSerializer(serializers.Serializer):
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost = serializers.DecimalField(
        max_digits=16, decimal_places=8, normalize_output=True, help_text="In US dollars."
    )


class SessionSerializer(serializers.ModelSerializer):
    agent_name = serializers.CharField(source="agent.current.name", default="")
    agent_version = serializers.IntegerField(
        source="agent_version.number", help_text="The number of the version that it runs."
    )
    usage = UsageSerializer(source="*")
    queue_length = serializers.IntegerField(help_text="Messages that wait for their run.")
    verdict = serializers.DictField(
        allow_null=True, help_text="What the grader said last of the outcome."
    )

    class Meta:
        model = Session
        fields = [
            "id",
            "agent",
            "agent_name",
            "agent_version",
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
            "queue_length",
            "created_by",
            "created_at",
            "active_at",
            "archived_at",
        ]
        read_only_fields = fields


class EventSerializer(serializers.Serializer):
    """One fact of a session's log, as every door shows it."""

    id = serializers.UUIDField()
    session_id = serializers.UUIDField()
    seq = serializers.IntegerField()
    type = serializers.ChoiceField(choices=SessionEvent.Type.choices)
    payload = serializers.DictField()
    run_id = serializers.UUIDField(allow_null=True, help_text="The run that wrote it.")
    created_at = serializers.DateTimeField()
    processed_at = serializers.DateTimeField(allow_null=True, help_text="When a run took it.")
    processed_run_id = serializers.UUIDField(allow_null=True)


class AuthoredEventSerializer(EventSerializer):
    """One fact of a session's log, and who wrote it."""

    author = serializers.CharField(
        required=False,
        help_text="With `authors`: the person's name; empty for agents and the server.",
    )


class AdmittedSerializer(serializers.Serializer):
    """An event that is in the log now, and the run that it belongs to."""

    event = EventSerializer()
    run_id = serializers.UUIDField(allow_null=True)


class ReceiptSerializer(serializers.Serializer):
    """What became of a person's message."""

    state = serializers.ChoiceField(
        choices=["queued", "merged", "steered", "answered", "withdrawn"]
    )
    run_id = serializers.UUIDField(allow_null=True)


class MessageSerializer(serializers.Serializer):
    """One message of the conversation, in its newest wording."""

    id = serializers.UUIDField()
    seq = serializers.IntegerField()
    role = serializers.CharField(help_text="`user` or `assistant`.")
    text = serializers.CharField()
    attachments = serializers.ListField(child=serializers.DictField())
    edited = serializers.BooleanField()
    model = serializers.CharField(allow_null=True)
    usage = serializers.DictField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)
    receipt = ReceiptSerializer(allow_null=True)
    created_at = serializers.DateTimeField()


class RunSerializer(serializers.ModelSerializer):
    session_id = serializers.UUIDField(read_only=True)

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
            "created_by",
            "created_at",
            "started_at",
            "finished_at",
        ]
        read_only_fields = fields


class QueuedSerializer(serializers.Serializer):
    """One place in the queue of a session."""

    run_id = serializers.UUIDField()
    position = serializers.IntegerField()
    text = serializers.CharField()
    on_busy = serializers.ChoiceField(choices=Run.OnBusy.choices)
    priority = serializers.IntegerField()
    message_seqs = serializers.ListField(child=serializers.IntegerField())
    created_at = serializers.DateTimeField()


class ResourceSerializer(serializers.ModelSerializer):
    notice = serializers.CharField(read_only=True)

    class Meta:
        model = ResourceAttachment
        fields = [
            "id",
            "kind",
            "source_ref",
            "mount_path",
            "access",
            "status",
            "reason",
            "notice",
            "prepared_at",
            "created_by",
            "created_at",
        ]
        read_only_fields = [
            "status",
            "reason",
            "prepared_at",
            "created_by",
            "created_at",
        ]


class ExecutionSerializer(serializers.ModelSerializer):
    """One call of a tool, from the ledger, without what looks like a secret."""

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
        shown: dict[str, Any] = super().to_representation(instance)
        return {**shown, **{name: redact(shown[name]) for name in ("input", "output", "error")}}
