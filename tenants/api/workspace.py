"""REST views of the workspace, its members, invitations and API keys, and of the caller."""

from __future__ import annotations

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.exceptions import Forbidden
from core.rest import OwnSerializer, TextField, validate_body
from tenants import workspaces
from tenants.access import SCOPE_VERBS, authorise
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import authorised, principal_of
from tenants.keys import issue_key, revoke_key
from tenants.models import ApiKey, Invitation, Membership, User, Workspace
from tenants.notifications.mail import checked_patterns, link_to


class UserSerializer(OwnSerializer):
    class Meta:
        model = User
        fields = ["id", "email", "name"]


class WorkspaceSerializer(OwnSerializer):
    mail_allowed = serializers.ListField(
        child=TextField(max_length=320),
        required=False,
        help_text="Addresses besides members' that agents may e-mail, or `*@example.com`.",
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
    """A new key with its secret, which is shown once."""

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
    """A new invitation with its link, which is shown once and sent by e-mail."""

    link = serializers.URLField(read_only=True)

    class Meta(InvitationSerializer.Meta):
        fields = [*InvitationSerializer.Meta.fields, "link"]


class MeSerializer(serializers.Serializer):
    """The caller, the workspace and the permissions in it."""

    user = UserSerializer(allow_null=True)
    key = KeySerializer(allow_null=True)
    workspace = WorkspaceSerializer()
    role = serializers.CharField()
    verbs = serializers.ListField(child=serializers.CharField())


class WorkspaceView(APIView):
    verbs = {"GET": "read", "PATCH": "admin"}

    @extend_schema(operation_id="workspace_retrieve", responses=WorkspaceSerializer)
    def get(self, request: Request) -> Response:
        """Return the workspace of the caller."""
        workspace_id = authorise(principal_of(request), "read")
        return Response(WorkspaceSerializer(Workspace.objects.get(pk=workspace_id)).data)

    @extend_schema(
        operation_id="workspace_rename", request=WorkspaceSerializer, responses=WorkspaceSerializer
    )
    def patch(self, request: Request) -> Response:
        """Rename the workspace, or change who agents may e-mail."""
        workspace_id = authorise(principal_of(request), "admin")
        workspace = Workspace.objects.get(pk=workspace_id)
        serializer = WorkspaceSerializer(workspace, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data)


class MeView(APIView):
    @extend_schema(operation_id="me", responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Return the caller, the workspace and the permissions in it."""
        principal, workspace_id = authorised(request, "read")
        me = {
            "user": principal.user,
            "key": principal.key,
            "workspace": Workspace.objects.get(pk=workspace_id),
            "role": principal.role,
            "verbs": sorted(principal.verbs),
        }
        return Response(MeSerializer(me).data)


class MemberViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Membership.objects.select_related("user")
    serializer_class = MemberSerializer
    filterset_fields = ["role"]
    # Every member may leave; `remove_member` checks the permission to remove others.
    verbs = {"partial_update": "admin", "destroy": "read"}

    def partial_update(self, request: Request, pk: str) -> Response:
        """Change a member's role."""
        member = self.get_object()
        role = validate_body(request, MemberSerializer).get("role", member.role)
        return Response(
            MemberSerializer(workspaces.change_role(self.principal, member.pk, role)).data
        )

    def destroy(self, request: Request, pk: str) -> Response:
        """Remove a member, or leave the workspace. The API keys that the member created are revoked."""
        workspaces.remove_member(self.principal, self.get_object().pk)
        return Response(status=204)


class InvitationViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Invitation.objects.all()
    serializer_class = InvitationSerializer
    filterset_fields = ["email"]
    verbs = {"list": "admin", "retrieve": "admin", "create": "admin", "destroy": "admin"}

    @extend_schema(request=InvitationSerializer, responses={201: SentInvitationSerializer})
    def create(self, request: Request) -> Response:
        """Invite a person by e-mail. The response contains the link too."""
        given = {"role": Membership.Role.BUILDER, **validate_body(request, InvitationSerializer)}
        sent = workspaces.invite(self.principal, **given)
        link = link_to(reverse("invitation", args=[sent.token]))
        workspaces.mail_invitation(sent.invitation, link)
        sent.invitation.refresh_from_db(fields=["created_at"])
        return Response({**InvitationSerializer(sent.invitation).data, "link": link}, status=201)

    def destroy(self, request: Request, pk: str) -> Response:
        """Withdraw a pending invitation."""
        workspaces.withdraw_invitation(self.principal, self.get_object().pk)
        return Response(status=204)


class KeyViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = ApiKey.objects.all()
    serializer_class = KeySerializer
    filterset_fields = ["scope"]
    verbs = {"list": "admin", "retrieve": "admin", "create": "admin", "destroy": "admin"}

    @extend_schema(request=KeySerializer, responses={201: IssuedKeySerializer})
    def create(self, request: Request) -> Response:
        """Issue a key. Its secret is only shown in this response."""
        fields = validate_body(request, KeySerializer)
        workspace_id = authorise(self.principal, "admin")
        if not SCOPE_VERBS[fields.get("scope", ApiKey.Scope.RUN)] <= self.principal.verbs:
            raise Forbidden("A key cannot have more permissions than its issuer.")
        issued = issue_key(workspace_id=workspace_id, created_by=self.principal.user, **fields)
        return Response({**KeySerializer(issued.key).data, "key": issued.secret}, status=201)

    def destroy(self, request: Request, pk: str) -> Response:
        """Revoke a key. It stays in the list but can no longer be used."""
        key = self.get_object()
        revoke_key(workspace_id=key.workspace_id, key_id=key.pk)
        return Response(status=204)
