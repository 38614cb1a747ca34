"""The shapes of tenants' REST doors."""

from __future__ import annotations

from rest_framework import serializers

from tenants.api.fields import OwnSerializer, TextField
from tenants.mail import checked_patterns
from tenants.models import ApiKey, Invitation, Membership, User, Workspace


class UserSerializer(OwnSerializer):
    class Meta:
        model = User
        fields = ["id", "email", "name"]


class WorkspaceSerializer(OwnSerializer):
    mail_allowed = serializers.ListField(
        child=TextField(max_length=320),
        required=False,
        help_text="Whom agents may write e-mail to beside members: addresses, or `*@example.com`.",
    )

    class Meta:
        model = Workspace
        fields = ["id", "name", "slug", "mail_allowed", "created_at"]
        read_only_fields = ["slug"]

    def validate_mail_allowed(self, patterns: list[str]) -> list[str]:
        return checked_patterns(patterns)


class KeySerializer(OwnSerializer):
    class Meta:
        model = ApiKey
        fields = [
            "id",
            "name",
            "prefix",
            "scope",
            "expires_at",
            "last_used_at",
            "revoked_at",
            "created_by",
            "created_at",
        ]
        read_only_fields = ["prefix", "last_used_at", "revoked_at", "created_by"]


class IssuedKeySerializer(KeySerializer):
    """A new key with its secret, which is shown this once."""

    key = serializers.CharField(read_only=True)

    class Meta(KeySerializer.Meta):
        fields = [*KeySerializer.Meta.fields, "key"]


class MemberSerializer(OwnSerializer):
    user = UserSerializer(read_only=True)

    class Meta:
        model = Membership
        fields = ["id", "user", "role", "created_by", "created_at"]
        read_only_fields = ["created_by"]


class InvitationSerializer(OwnSerializer):
    class Meta:
        model = Invitation
        fields = ["id", "email", "role", "expires_at", "accepted_at", "created_by", "created_at"]
        read_only_fields = ["expires_at", "accepted_at", "created_by"]


class SentInvitationSerializer(InvitationSerializer):
    """A new invitation with its link, which is shown this once and sent by mail."""

    link = serializers.URLField(read_only=True)

    class Meta(InvitationSerializer.Meta):
        fields = [*InvitationSerializer.Meta.fields, "link"]


class MeSerializer(serializers.Serializer):
    """Who asks, where they act, and what they may do there."""

    user = UserSerializer(allow_null=True)
    key = KeySerializer(allow_null=True)
    workspace = WorkspaceSerializer()
    role = serializers.CharField()
    verbs = serializers.ListField(child=serializers.CharField())
