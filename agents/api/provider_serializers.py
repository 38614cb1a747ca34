"""The shapes of the doors to providers and models."""

from __future__ import annotations

from rest_framework import serializers

from agents.credentials import Source
from tenants.api.fields import TextField


class ProviderSerializer(serializers.Serializer):
    """A provider, and by whose key this workspace can use it. The key itself is never shown."""

    name = serializers.CharField(source="provider")
    title = serializers.CharField(source="label")
    needs_key = serializers.BooleanField()
    configured = serializers.BooleanField()
    key_source = serializers.ChoiceField(
        source="source", choices=[one.value for one in Source], help_text="Whose key it is."
    )
    hint = serializers.CharField(source="key.hint", default="", help_text="The end of the key.")
    base_url = serializers.CharField(
        source="key.base_url", default="", help_text="Empty: the vendor's own, or the operator's."
    )
    checked_at = serializers.DateTimeField(source="key.checked_at", default=None, allow_null=True)
    check_error = serializers.CharField(source="key.check_error", default="")
    created_by = serializers.UUIDField(source="key.created_by_id", default=None, allow_null=True)
    created_at = serializers.DateTimeField(source="key.created_at", default=None, allow_null=True)


class ProviderKeySerializer(serializers.Serializer):
    """The two are replaced together."""

    api_key = TextField(
        write_only=True,
        required=False,
        allow_blank=True,
        max_length=4_096,
        help_text="Needed, but for a server of your own that asks for none.",
    )
    base_url = TextField(
        write_only=True,
        required=False,
        allow_blank=True,
        max_length=200,
        help_text="The address of another server that speaks the provider's language.",
    )


class ProviderTestSerializer(serializers.Serializer):
    model = TextField(
        required=False,
        allow_blank=True,
        max_length=120,
        help_text="Also see that this model can be used.",
    )


class CheckSerializer(serializers.Serializer):
    ok = serializers.BooleanField()
    error = serializers.CharField(allow_blank=True)
    checked_at = serializers.DateTimeField()


class ModelSerializer(serializers.Serializer):
    """A model that the product knows. Others may be used too: their names are passed on."""

    provider = serializers.CharField()
    name = serializers.CharField()
    window = serializers.IntegerField(help_text="Tokens that fit into one request.")
    max_output = serializers.IntegerField(help_text="Tokens of the longest answer.")
    input_price = serializers.DecimalField(
        max_digits=12,
        decimal_places=6,
        allow_null=True,
        help_text="US dollars per million tokens; null when unknown.",
    )
    output_price = serializers.DecimalField(max_digits=12, decimal_places=6, allow_null=True)
    usable = serializers.BooleanField(help_text="This workspace has a key for its provider.")
    default = serializers.BooleanField(help_text="What a new agent gets.")
