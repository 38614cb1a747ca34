"""The REST routes of tenants, below /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from tenants.api.billing import BudgetViewSet, CreditEntryViewSet, CreditsView, UsageView
from tenants.api.notifications import BELOW_WEBHOOK, DeliveryViewSet, InboxViewSet, WebhookViewSet
from tenants.api.vault import SecretViewSet
from tenants.api.workspace import (
    InvitationViewSet,
    KeyViewSet,
    MemberViewSet,
    MeView,
    WorkspaceView,
)

router = SimpleRouter()
router.register("keys", KeyViewSet, basename="key")
router.register("members", MemberViewSet, basename="member")
router.register("invitations", InvitationViewSet, basename="invitation-api")
router.register("credits/entries", CreditEntryViewSet, basename="credit-entry")
router.register("budgets", BudgetViewSet, basename="budget")
router.register("vault", SecretViewSet, basename="secret")
router.register("inbox", InboxViewSet, basename="inbox-api")
router.register("webhooks", WebhookViewSet, basename="webhook-api")
router.register(BELOW_WEBHOOK, DeliveryViewSet, basename="webhook-delivery")

INBOX = InboxViewSet.as_view({"get": "list", "patch": "update_all"})

urlpatterns = [
    path("inbox/", INBOX, name="api-inbox"),
    path("", include(router.urls)),
    path("workspace/", WorkspaceView.as_view(), name="api-workspace"),
    path("credits/", CreditsView.as_view(), name="api-credits"),
    path("usage/", UsageView.as_view(), name="api-usage"),
    path("me/", MeView.as_view(), name="api-me"),
]
