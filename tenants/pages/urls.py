"""URLs of the pages of tenants."""

from __future__ import annotations

from django.urls import include, path

from tenants.pages import accounts, billing, home, navigation, notifications, vault, workspace

workspace_urls = [
    path("", workspace.settings, name="settings"),
    path("workspace/", workspace.workspace, name="workspace"),
    path("workspace/mail/", workspace.workspace_mail, name="workspace_mail"),
    path("members/", workspace.members, name="members"),
    path("members/invite/", workspace.member_invite, name="member_invite"),
    path("members/<uuid:membership_id>/role/", workspace.member_role, name="member_role"),
    path("members/<uuid:membership_id>/remove/", workspace.member_remove, name="member_remove"),
    path(
        "invitations/<uuid:invitation_id>/withdraw/",
        workspace.invitation_withdraw,
        name="invitation_withdraw",
    ),
    path("keys/", workspace.keys, name="keys"),
    path("keys/new/", workspace.key_new, name="key_new"),
    path("keys/<uuid:key_id>/revoke/", workspace.key_revoke, name="key_revoke"),
    path("account/", accounts.account, name="account"),
]
vault_urls = [
    path("", vault.vault_page, name="vault"),
    path("new/", vault.secret_new, name="secret_new"),
    path("<uuid:secret_id>/replace/", vault.secret_replace, name="secret_replace"),
    path("<uuid:secret_id>/delete/", vault.secret_delete, name="secret_delete"),
]
webhook_urls = [
    path("", notifications.webhooks, name="webhooks"),
    path("new/", notifications.webhook_new, name="webhook_new"),
    path("<uuid:webhook_id>/", notifications.webhook, name="webhook"),
    path("<uuid:webhook_id>/switch/", notifications.webhook_switch, name="webhook_switch"),
    path("<uuid:webhook_id>/ping/", notifications.webhook_ping, name="webhook_ping"),
    path("<uuid:webhook_id>/rotate/", notifications.webhook_rotate, name="webhook_rotate"),
    path("<uuid:webhook_id>/remove/", notifications.webhook_remove, name="webhook_remove"),
    path(
        "deliveries/<uuid:delivery_id>/replay/", notifications.webhook_replay, name="webhook_replay"
    ),
]
inbox_urls = [
    path("", notifications.inbox, name="inbox"),
    path("read-all/", notifications.inbox_read_all, name="inbox_read_all"),
    path("<uuid:item_id>/", notifications.inbox_item, name="inbox_item"),
    path("<uuid:item_id>/unread/", notifications.inbox_unread, name="inbox_unread"),
]
budget_urls = [
    path("", billing.budgets, name="budgets"),
    path("ledger/", billing.ledger, name="ledger"),
    path("credits/", billing.credits_add, name="credits_add"),
    path("set/", billing.budget_set, name="budget_set"),
    path("<uuid:budget_id>/", billing.budget_change, name="budget_change"),
    path("<uuid:budget_id>/remove/", billing.budget_remove, name="budget_remove"),
    path("prices/", billing.price_set, name="price_set"),
    path("prices/<uuid:price_id>/remove/", billing.price_remove, name="price_remove"),
]

urlpatterns = [
    path("", home.home, name="home"),
    path("sign-in/", accounts.sign_in, name="sign_in"),
    path("sign-in/<str:token>/", accounts.sign_in_link, name="sign_in_link"),
    path("sign-out/", accounts.sign_out, name="sign_out"),
    path("sign-up/", accounts.sign_up, name="sign_up"),
    path("invitations/<str:token>/", accounts.invitation, name="invitation"),
    path("password/", accounts.password, name="password"),
    path("password/reset/", accounts.password_reset, name="password_reset"),
    path("password/reset/sent/", accounts.password_reset_sent, name="password_reset_sent"),
    path(
        "password/reset/<uidb64>/<token>/",
        accounts.PasswordResetConfirm.as_view(),
        name="password_reset_confirm",
    ),
    path("workspaces/new/", workspace.workspace_new, name="workspace_new"),
    path("workspaces/switch/", workspace.workspace_switch, name="workspace_switch"),
    path("palette/", navigation.palette, name="palette"),
    path("usage/", billing.usage, name="analytics"),
    path("inbox/", include(inbox_urls)),
    path("settings/vault/", include(vault_urls)),
    path("settings/webhooks/", include(webhook_urls)),
    path("settings/budgets/", include(budget_urls)),
    path("settings/", include(workspace_urls)),
]
