"""Paths of tenants' REST doors, under /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from tenants.api.keys import KeyViewSet
from tenants.api.members import InvitationViewSet, MemberViewSet
from tenants.api.workspace import MeView, WorkspaceView

router = SimpleRouter()
router.register("keys", KeyViewSet, basename="key")
router.register("members", MemberViewSet, basename="member")
router.register("invitations", InvitationViewSet, basename="invitation-api")

urlpatterns = [
    path("", include(router.urls)),
    path("workspace/", WorkspaceView.as_view(), name="api-workspace"),
    path("me/", MeView.as_view(), name="api-me"),
]
