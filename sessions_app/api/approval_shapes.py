"""The shapes of the doors to approvals."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from config.redaction import redact, redact_text
from sessions_app.api.body import ObjectField
from sessions_app.models import Approval
from tenants.api.fields import TextField
from tools_app.grants import covers
from tools_app.registry import registry


class ApprovalInput(serializers.Serializer):
    """An answer."""

    decision = serializers.ChoiceField(choices=Approval.Decision.choices)
    scope = serializers.ChoiceField(
        choices=Approval.Scope.choices,
        default=Approval.Scope.ONCE,
        help_text="`session` lets like calls run without a question in all runs of the session: "
        "`covers` says which. `always` writes a rule into the agent's policy and needs the right to admin.",
    )
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")
    input = ObjectField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Other arguments than those that were asked for.",
    )


class ApprovalSerializer(serializers.ModelSerializer):
    """One question to people, and its answer.

    Who may answer sees exactly what they answer for; others see it without what looks like a secret.
    """

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
        help_text="How far the answer goes; empty as long as there is none.",
    )
    covers = serializers.SerializerMethodField(
        help_text="Which calls an answer for the session, or for always, would cover."
    )
    resolved_by_name = serializers.CharField(source="resolved_name", read_only=True)

    class Meta:
        model = Approval
        fields = [
            "id",
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

    def get_covers(self, approval: Approval) -> str:
        return covers(registry.get(approval.execution.name)) if approval.execution else ""

    def to_representation(self, instance: Approval) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(instance)
        if not self.context.get("may_run"):
            for field in ("input", "edited_input"):
                shown[field] = redact(shown[field])
            for field in ("title", "rule", "note"):
                shown[field] = redact_text(shown[field])
        return shown
