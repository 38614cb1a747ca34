"""REST: members of the acting workspace, and invitations to it."""

from __future__ import annotations

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.api.base import WorkspaceViewSet
from tenants.api.serializers import (
    InvitationSerializer,
    MemberSerializer,
    SentInvitationSerializer,
)
from tenants.members import (
    change_role,
    invite,
    mail_invitation,
    remove_member,
    withdraw_invitation,
)
from tenants.models import Invitation, Membership


class MemberViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Membership.objects.select_related("user")
    serializer_class = MemberSerializer
    filterset_fields = ["role"]
    # Everybody may leave; `remove_member` asks for more when somebody else is removed.
    verbs = {"partial_update": "admin", "destroy": "read"}

    def partial_update(self, request: Request, pk: str) -> Response:
        """Change a member's role."""
        member = self.get_object()
        asked = MemberSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        role = asked.validated_data.get("role", member.role)
        return Response(MemberSerializer(change_role(self.principal, member.pk, role)).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Remove a member, or leave. The API keys that they made are revoked."""
        remove_member(self.principal, self.get_object().pk)
        return Response(status=204)


class InvitationViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Invitation.objects.all()
    serializer_class = InvitationSerializer
    filterset_fields = ["email"]
    verbs = {"list": "admin", "retrieve": "admin", "create": "admin", "destroy": "admin"}

    @extend_schema(request=InvitationSerializer, responses={201: SentInvitationSerializer})
    def create(self, request: Request) -> Response:
        """Invite somebody. The link is in the answer and in a mail to them."""
        asked = InvitationSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        sent = invite(
            self.principal,
            email=asked.validated_data["email"],
            role=asked.validated_data.get("role", Membership.Role.BUILDER),
        )
        link = request.build_absolute_uri(reverse("invitation", args=[sent.token]))
        mail_invitation(sent.invitation, link)
        sent.invitation.refresh_from_db(fields=["created_at"])
        return Response({**InvitationSerializer(sent.invitation).data, "link": link}, status=201)

    def destroy(self, request: Request, pk: str) -> Response:
        """Withdraw an invitation that nobody has taken."""
        withdraw_invitation(self.principal, self.get_object().pk)
        return Response(status=204)
