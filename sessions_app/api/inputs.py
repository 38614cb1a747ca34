"""The shapes that sessions' REST doors accept."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from sessions_app.api.body import ObjectField
from sessions_app.compaction.by_hand import LEAST_TARGET, MOST_KEPT
from sessions_app.models import Run
from sessions_app.payloads import LONGEST_TEXT
from tenants.api.fields import TextField

MOST_METADATA = 64_000
OUTCOME = (
    "What the session is to reach: `statement`, `criteria` (a list of texts), `max_returns` (0 to 5, "
    "by default 2) and, if the agent's own model is not to judge, `grader` (`provider`, `model`)."
)


@extend_schema_field({"oneOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]})
class VersionField(serializers.IntegerField):
    """The number of a version, or its id."""

    default_error_messages = {"invalid": "This is neither the number nor the id of a version."}

    def __init__(self, **words: Any) -> None:
        super().__init__(min_value=1, max_value=2_000_000_000, **words)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        try:
            return UUID(data) if isinstance(data, str) else super().run_validation(data)
        except ValueError:
            return super().run_validation(data)


class SessionInput(serializers.Serializer):
    agent = TextField(max_length=80, help_text="The id or the exact name of one.")
    session_key = TextField(
        max_length=200,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="The same agent and key give the same session again.",
    )
    environment = TextField(
        max_length=80,
        required=False,
        allow_null=True,
        help_text="The id or the name of one. By default the agent's.",
    )
    title = TextField(max_length=200, required=False, allow_blank=True)
    metadata = ObjectField(most=MOST_METADATA, required=False)
    outcome = ObjectField(required=False, allow_null=True, help_text=OUTCOME)


class SessionChange(serializers.Serializer):
    title = TextField(max_length=200, required=False, allow_blank=True)
    metadata = ObjectField(most=MOST_METADATA, required=False, help_text="Replaces all of it.")
    outcome = ObjectField(required=False, allow_null=True, help_text=f"{OUTCOME} Null: none.")
    agent_version = VersionField(
        required=False,
        help_text="A version of the same agent, by its number or its id. A run under way keeps the "
        "one it has.",
    )


class Manner(serializers.Serializer):
    """What happens with a message that comes while a run is active, and how urgent it is."""

    on_busy = serializers.ChoiceField(choices=Run.OnBusy.choices, default=Run.OnBusy.FOLLOWUP)
    priority = serializers.IntegerField(min_value=-100, max_value=100, default=0)


class EventInput(Manner):
    type = TextField(max_length=64, help_text="One of the `user.*` types.")
    payload = ObjectField(required=False, default=dict)


class CompactInput(serializers.Serializer):
    keep_recent_messages = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST_KEPT,
        help_text="Messages at the end to leave as they are. By default a share of the window.",
    )
    target_token_count = serializers.IntegerField(
        required=False,
        min_value=LEAST_TARGET,
        max_value=2**31 - 1,
        help_text="About how many tokens the conversation may have afterwards.",
    )


class AttachmentInput(serializers.Serializer):
    name = TextField(max_length=255)
    path = TextField(max_length=1000)
    media_type = TextField(max_length=100, required=False, allow_blank=True)
    size = serializers.IntegerField(min_value=0, max_value=2**53, required=False)


class MessageInput(Manner):
    text = TextField(max_length=LONGEST_TEXT, trim_whitespace=False)
    attachments = AttachmentInput(many=True, required=False, help_text="At most twenty.")


class RuntimeInput(Manner):
    agent = TextField(max_length=80, help_text="The id or the exact name of one.")
    session_key = TextField(max_length=200)
    message = TextField(max_length=LONGEST_TEXT, trim_whitespace=False)


class InterruptInput(serializers.Serializer):
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")
    run_id = serializers.UUIDField(
        required=False,
        help_text="Stop this run only; 409 `run_over` when it does not run any more.",
    )


class ForkInput(serializers.Serializer):
    at_seq = serializers.IntegerField(
        min_value=0, max_value=2**53, help_text="The last event that the new session shares."
    )


class QueueChange(serializers.Serializer):
    text = TextField(max_length=LONGEST_TEXT, required=False, trim_whitespace=False)
    position = serializers.IntegerField(
        min_value=0, max_value=2**31 - 1, required=False, help_text="0 is the next to run."
    )
    on_busy = serializers.ChoiceField(
        ["steer", "interrupt"],
        required=False,
        help_text="Sends it now: into the answer that runs, or after stopping it.",
    )


class VerifyInput(serializers.Serializer):
    took_effect = serializers.BooleanField(help_text="Whether the call did what it was to do.")
    output = serializers.JSONField(
        required=False, allow_null=True, default=None, help_text="What it gave, if that is known."
    )
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")


class RetryInput(serializers.Serializer):
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")
