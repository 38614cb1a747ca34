"""REST: the secrets of the acting workspace. Values can be written and never read."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from core.rest import PatternField, StrictJSONParser, TextField, validate_body
from tenants import vault
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.models import Secret
from tools_app.mcp.servers import secrets_used

TAKEN = OpenApiResponse(description="A secret with this name already exists. Change it instead.")


class SecretSerializer(serializers.Serializer):
    """A secret without its value. Refer to it as `{{vault:NAME}}`."""

    id = serializers.UUIDField(read_only=True)
    name = PatternField(vault.NAME_PATTERN, help_text=vault.NAME_RULE)
    value = TextField(
        write_only=True,
        max_length=vault.LONGEST_VALUE,
        trim_whitespace=False,
        help_text="Stored encrypted. It can be used and replaced, but never read.",
    )
    hosts = serializers.ListField(
        child=TextField(max_length=253),
        required=False,
        max_length=vault.MOST_HOSTS,
        help_text="Hosts that it may be sent to, such as `api.example.com`. Empty means any host.",
    )
    used_by = serializers.SerializerMethodField()
    set_at = serializers.DateTimeField(read_only=True)
    last_used_at = serializers.DateTimeField(read_only=True, allow_null=True)
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)

    def get_used_by(self, secret: Secret) -> list[str]:
        """What uses the secret, such as `MCP server github`."""
        used: dict[str, list[str]] = self.context["used_by"]
        return used.get(secret.name, [])


class SecretChangeSerializer(serializers.Serializer):
    """The fields of a secret that can be changed. Its name cannot."""

    value = TextField(
        write_only=True, required=False, max_length=vault.LONGEST_VALUE, trim_whitespace=False
    )
    hosts = serializers.ListField(
        child=TextField(max_length=253), required=False, max_length=vault.MOST_HOSTS
    )


@extend_schema_view(
    list=extend_schema(description="List the workspace's secrets by name, without their values."),
    retrieve=extend_schema(description="Return one secret, without its value."),
)
class SecretViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Secret.objects.defer("value")
    serializer_class = SecretSerializer
    filterset_fields = ["name"]
    parser_classes = [StrictJSONParser]
    verbs = dict.fromkeys(("list", "retrieve", "create", "partial_update", "destroy"), "admin")

    def get_serializer_context(self) -> dict[str, Any]:
        workspace_id = self.principal.workspace_id
        used = secrets_used(workspace_id) if workspace_id else {}
        return {**super().get_serializer_context(), "used_by": used}

    @extend_schema(responses={201: SecretSerializer, 409: TAKEN})
    def create(self, request: Request) -> Response:
        """Store a secret."""
        workspace_id = authorise(self.principal, "admin")
        given = validate_body(request, SecretSerializer)
        made = vault.add(
            workspace_id,
            given["name"],
            given["value"],
            hosts=given.get("hosts", []),
            by=self.principal.user,
        )
        return Response(self.get_serializer(_fresh(made)).data, status=201)

    @extend_schema(request=SecretChangeSerializer, responses=SecretSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Replace the value, the hosts it may be sent to, or both."""
        secret: Secret = self.get_object()
        given = validate_body(request, SecretChangeSerializer)
        if "value" in given:
            vault.replace(secret, given["value"], hosts=given.get("hosts"))
        elif "hosts" in given:
            vault.restrict(secret.workspace_id, secret.name, given["hosts"])
        return Response(self.get_serializer(_fresh(secret)).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete the secret. Whatever still refers to it fails and names the missing secret."""
        secret = self.get_object()
        vault.delete(secret.workspace_id, secret.name)
        return Response(status=204)


def _fresh(secret: Secret) -> Secret:
    """Reload the secret with its database defaults, without its value."""
    return Secret.objects.defer("value").get(pk=secret.pk)
