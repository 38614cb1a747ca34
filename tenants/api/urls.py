"""The REST routes of tenants, below /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from tenants.api import billing, notifications, vault, workspace

router = SimpleRouter()
router.register("keys", workspace.KeyViewSet, basename="key")
router.register("members", workspace.MemberViewSet, basename="member")
router.register("invitations", workspace.InvitationViewSet, basename="invitation-api")
router.register("credits/entries", billing.CreditEntryViewSet, basename="credit-entry")
router.register("budgets", billing.BudgetViewSet, basename="budget")
router.register("vault", vault.SecretViewSet, basename="secret")
router.register("inbox", notifications.InboxViewSet, basename="inbox-api")
router.register("webhooks", notifications.WebhookViewSet, basename="webhook-api")
router.register(
    notifications.BELOW_WEBHOOK, notifications.DeliveryViewSet, basename="webhook-delivery"
)

INBOX = notifications.InboxViewSet.as_view({"get": "list", "patch": "update_all"})

urlpatterns = [
    path("inbox/", INBOX, name="api-inbox"),
    path("", include(router.urls)),
    path("workspace/", workspace.WorkspaceView.as_view(), name="api-workspace"),
    path("credits/", billing.CreditsView.as_view(), name="api-credits"),
    path("usage/", billing.UsageView.as_view(), name="api-usage"),
    path("me/", workspace.MeView.as_view(), name="api-me"),
]
