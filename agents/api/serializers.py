"""The serializers of agents and environments. They describe and render; pydantic validates."""

from __future__ import annotations

from typing import Any, get_args

from annotated_types import Ge, Le
from rest_framework import serializers

from agents.definitions import current_version
from agents.environments import KINDS
from agents.examples import suggestions
from agents.limits import Limits, SandboxLimits
from agents.models import Agent, AgentVersion, Environment
from agents.mounts import Mount
from agents.providers.registry import PROVIDERS
from core.validation import Input

PROVIDER_CHOICES = [(name, factory.label) for name, factory in PROVIDERS.items()]


def _limits_serializer(model: type[Input]) -> type[serializers.Serializer]:
    """Derive a serializer with the fields, bounds and defaults of a pydantic model."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if field.annotation is bool:
            fields[name] = serializers.BooleanField(
                default=field.default, help_text=field.description
            )
            continue
        bounds = {type(bound): bound for bound in field.metadata}
        fields[name] = serializers.IntegerField(
            min_value=bounds[Ge].ge,
            max_value=bounds[Le].le,
            default=field.default,
            help_text=field.description,
        )
    return type(f"{model.__name__}Serializer", (serializers.Serializer,), fields)


LimitsSerializer = _limits_serializer(Limits)
SandboxLimitsSerializer = _limits_serializer(SandboxLimits)


class FallbackSerializer(serializers.Serializer):
    """May also be a string: `demo/demo`, or the name of a known model."""

    provider = serializers.ChoiceField(choices=PROVIDER_CHOICES)
    model = serializers.CharField(max_length=120)


class DefinitionSerializer(serializers.Serializer):
    """The definition in every version of an agent."""

    name = serializers.CharField(max_length=80)
    description = serializers.CharField(
        max_length=10_000,
        required=False,
        allow_blank=True,
        help_text="A line that begins with `Try:` is offered as a first message.",
    )
    system_prompt = serializers.CharField(
        required=False, allow_blank=True, help_text="At most 100,000 bytes."
    )
    provider = serializers.ChoiceField(
        choices=PROVIDER_CHOICES,
        required=False,
        help_text="By default that of the workspace's default model, or else the first of these that "
        "has a key, or else the demo.",
    )
    model = serializers.CharField(
        max_length=120, required=False, help_text="By default the provider's default model."
    )
    runner = serializers.ChoiceField(choices=AgentVersion.Runner.choices, required=False)
    fallbacks = FallbackSerializer(
        many=True, required=False, help_text="Models to try next, in order; at most five."
    )
    temperature = serializers.FloatField(
        min_value=0,
        max_value=2,
        required=False,
        allow_null=True,
        help_text="Null uses the model's default.",
    )
    max_tokens = serializers.IntegerField(
        min_value=1,
        max_value=10_000_000,
        required=False,
        allow_null=True,
        help_text="The longest answer, in tokens. Null uses the model's default.",
    )
    effort = serializers.ChoiceField(
        choices=AgentVersion.Effort.choices,
        required=False,
        allow_blank=True,
        help_text="How much the model thinks before it answers. Empty leaves it to the model.",
    )
    response_schema = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="A JSON Schema of an object. Answers fit it, and a run's `result` has the `data`.",
    )
    environment = serializers.CharField(
        source="environment_id",
        required=False,
        allow_null=True,
        help_text="An id or a name; returned as an id. Null uses the workspace's default.",
    )
    limits = LimitsSerializer(
        required=False, help_text="In a PATCH, what is not named stays and null is the default."
    )


class VersionSerializer(DefinitionSerializer):
    """One immutable version of an agent."""

    id = serializers.UUIDField(read_only=True)
    agent = serializers.UUIDField(source="agent_id", read_only=True)
    version = serializers.IntegerField(source="number", read_only=True)
    note = serializers.CharField(
        read_only=True,
        help_text="Why a version was made without an edit, such as a move to another model.",
    )
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)


class AgentSerializer(DefinitionSerializer):
    """An agent as its current version defines it."""

    id = serializers.UUIDField(read_only=True)
    version = serializers.IntegerField(
        source="current.number", read_only=True, help_text="The number of the current version."
    )
    version_id = serializers.UUIDField(source="current_id", read_only=True)
    is_draft = serializers.BooleanField(
        read_only=True, help_text="Not published yet: the version is 0 and it is given no work."
    )
    suggestions = serializers.SerializerMethodField(help_text="Suggested first messages.")
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(
        source="current.created_at",
        read_only=True,
        help_text="When the current version was created.",
    )
    archived_at = serializers.DateTimeField(read_only=True, allow_null=True)
    expected_version = serializers.IntegerField(
        write_only=True,
        required=False,
        help_text="In a change: refuse it with 409 if this is not the newest version.",
    )

    def get_fields(self) -> dict[str, serializers.Field]:
        fields = super().get_fields()
        for name in DefinitionSerializer().get_fields():
            fields[name].source = f"current.{fields[name].source or name}"
        return fields

    def get_suggestions(self, agent: Agent) -> list[str]:
        return suggestions(current_version(agent).description)


class MountSerializer(serializers.Serializer):
    kind = serializers.ChoiceField(choices=get_args(Mount.model_fields["kind"].annotation))
    source_ref = serializers.CharField(max_length=500, required=False, allow_blank=True)
    mount_path = serializers.CharField(max_length=200)
    access = serializers.ChoiceField(
        choices=get_args(Mount.model_fields["access"].annotation), required=False
    )


class EnvironmentSerializer(serializers.Serializer):
    """Where commands run: the kind of sandbox, its network, mounts and limits."""

    id = serializers.UUIDField(read_only=True)
    name = serializers.CharField(max_length=80)
    kind = serializers.ChoiceField(choices=list(KINDS), required=False)
    network = serializers.ChoiceField(choices=Environment.Network.choices, required=False)
    allowed_hosts = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="For the network `allowlist`, such as `api.example.com` or `*.example.com`.",
    )
    image = serializers.CharField(max_length=200, required=False, allow_blank=True)
    mounts = MountSerializer(
        many=True, required=False, help_text="Mounts that every session here starts with."
    )
    limits = SandboxLimitsSerializer(
        required=False, help_text="In a PATCH, what is not named stays and null is the default."
    )
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)
