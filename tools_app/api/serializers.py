"""The shapes of the REST doors of tools. They describe; `policy_input` and its like judge."""

from __future__ import annotations

from typing import Any, get_args

from rest_framework import serializers

from tenants.api.fields import TextField
from tools_app.models import ToolPolicy
from tools_app.policy import Verdict
from tools_app.policy_input import MOST_CALLS, MOST_RULES
from tools_app.profiles import PROFILES
from tools_app.registry import Category, Effect, Ownership, Permission, Tool

PROFILE_CHOICES = [(name, name) for name in PROFILES]
DECISIONS = [(name, name) for name in get_args(Verdict)]
PERMISSIONS = [(name, name) for name in get_args(Permission)]
LAYERS = [*ToolPolicy.Layer.choices, ("default", "Default")]


def _rules(help_text: str) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(), required=False, max_length=MOST_RULES, help_text=help_text
    )


class PolicyWordsSerializer(serializers.Serializer):
    """What one layer says about tools."""

    profile = serializers.ChoiceField(
        choices=PROFILE_CHOICES,
        required=False,
        allow_null=True,
        help_text="The set of tools to start from. Null: `coding` for an agent, else no bound.",
    )
    allowed_tools = _rules("Empty: the whole profile. Otherwise it narrows the profile.")
    denied_tools = _rules("Names, `group:web`, `mcp:github:*`, `exec(rm *)`. Deny beats all.")
    ask_tools = _rules("Calls for which a person is asked first.")
    max_tool_calls_per_turn = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=MOST_CALLS
    )


class PolicySerializer(PolicyWordsSerializer):
    layer = serializers.ChoiceField(choices=LAYERS, read_only=True)
    revision = serializers.IntegerField(
        read_only=True, help_text="0 as long as nobody has said anything."
    )
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True, allow_null=True)
    expected_revision = serializers.IntegerField(
        write_only=True,
        required=False,
        help_text="Refuse the change with 409 when this is not the newest revision.",
    )


class PolicyRevisionSerializer(PolicyWordsSerializer):
    """What a policy said from some moment on, and who said it."""

    revision = serializers.IntegerField()
    author = serializers.CharField(help_text="The person's address, or the key's name.")
    reverts_to = serializers.IntegerField(
        allow_null=True, help_text="The revision that was brought back, if it was a revert."
    )
    created_by = serializers.UUIDField(source="created_by_id", allow_null=True)
    created_at = serializers.DateTimeField()


class RevertSerializer(serializers.Serializer):
    revision = serializers.IntegerField(
        min_value=0, help_text="0 is what counted before anything was said."
    )


class CallSerializer(serializers.Serializer):
    """A call that is not made."""

    tool = TextField(max_length=160)
    input = serializers.DictField(required=False)


class LinkSerializer(serializers.Serializer):
    """What one layer says by itself."""

    layer = serializers.ChoiceField(choices=LAYERS)
    decision = serializers.ChoiceField(choices=DECISIONS)
    rule = serializers.CharField()


class ExplanationSerializer(serializers.Serializer):
    tool = serializers.CharField()
    decision = serializers.ChoiceField(choices=DECISIONS)
    layer = serializers.ChoiceField(choices=LAYERS, help_text="The layer that decided.")
    rule = serializers.CharField(help_text="The rule that decided.")
    decided_by = serializers.CharField(help_text="Both, as a call's event has them.")
    chain = LinkSerializer(many=True, help_text="What every layer says, from the ceiling down.")


class ToolSerializer(serializers.Serializer):
    """A tool that agents may be given."""

    name = serializers.CharField()
    title = serializers.CharField()
    description = serializers.CharField()
    category = serializers.ChoiceField(choices=[(one.value, one.value) for one in Category])
    ownership = serializers.ChoiceField(choices=[(one, one) for one in get_args(Ownership)])
    permission = serializers.ChoiceField(choices=PERMISSIONS)
    effects = serializers.ListField(
        child=serializers.ChoiceField(choices=[(one.value, one.value) for one in Effect])
    )
    read_only = serializers.BooleanField()  # type: ignore[assignment]
    idempotent = serializers.BooleanField()
    seconds = serializers.FloatField(help_text="The time limit of one call.")
    input_schema = serializers.DictField()


class EffectiveToolSerializer(ToolSerializer):
    """A tool that an agent has, and what happens when it calls it."""

    decision = serializers.ChoiceField(choices=DECISIONS)
    decided_by = serializers.CharField()


def shown(tool: Tool) -> dict[str, Any]:
    """A tool as people and programs see it."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "category": tool.category.value,
        "ownership": tool.ownership,
        "permission": tool.permission,
        "effects": sorted(effect.value for effect in tool.effects),
        "read_only": tool.read_only,
        "idempotent": tool.idempotent,
        "seconds": tool.seconds,
        "input_schema": tool.spec().json_schema,
    }
