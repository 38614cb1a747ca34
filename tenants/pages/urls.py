"""URLs of the pages of tenants."""

from __future__ import annotations

from django.urls import include, path

from tenants.pages import accounts, billing, home, navigation, notifications, vault, workspace

webhook_urls = [
    path("switch/", notifications.webhook_switch, name="webhook_switch"),
    path("ping/", notifications.webhook_ping, name="webhook_ping"),
    path("rotate/", notifications.webhook_rotate, name="webhook_rotate"),
    path("remove/", notifications.webhook_remove, name="webhook_remove"),
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
    path("settings/", workspace.settings, name="settings"),
    path("settings/workspace/", workspace.workspace, name="workspace"),
    path("settings/workspace/mail/", workspace.workspace_mail, name="workspace_mail"),
    path("settings/members/", workspace.members, name="members"),
    path("settings/members/invite/", workspace.member_invite, name="member_invite"),
    path("settings/members/<uuid:membership_id>/role/", workspace.member_role, name="member_role"),
    path(
        "settings/members/<uuid:membership_id>/remove/",
        workspace.member_remove,
        name="member_remove",
    ),
    path(
        "settings/invitations/<uuid:invitation_id>/withdraw/",
        workspace.invitation_withdraw,
        name="invitation_withdraw",
    ),
    path("settings/keys/", workspace.keys, name="keys"),
    path("settings/keys/new/", workspace.key_new, name="key_new"),
    path("settings/keys/<uuid:key_id>/revoke/", workspace.key_revoke, name="key_revoke"),
    path("settings/vault/", vault.vault_page, name="vault"),
    path("settings/vault/new/", vault.secret_new, name="secret_new"),
    path("settings/vault/<uuid:secret_id>/replace/", vault.secret_replace, name="secret_replace"),
    path("settings/vault/<uuid:secret_id>/delete/", vault.secret_delete, name="secret_delete"),
    path("settings/webhooks/", notifications.webhooks, name="webhooks"),
    path("settings/webhooks/new/", notifications.webhook_new, name="webhook_new"),
    path("settings/webhooks/<uuid:webhook_id>/", notifications.webhook, name="webhook"),
    path("settings/webhooks/<uuid:webhook_id>/", include(webhook_urls)),
    path(
        "settings/webhooks/deliveries/<uuid:delivery_id>/replay/",
        notifications.webhook_replay,
        name="webhook_replay",
    ),
    path("inbox/", notifications.inbox, name="inbox"),
    path("inbox/read-all/", notifications.inbox_read_all, name="inbox_read_all"),
    path("inbox/<uuid:item_id>/", notifications.inbox_item, name="inbox_item"),
    path("inbox/<uuid:item_id>/unread/", notifications.inbox_unread, name="inbox_unread"),
    path("settings/account/", accounts.account, name="account"),
    path("palette/", navigation.palette, name="palette"),
    path("usage/", billing.usage, name="analytics"),
    path("settings/budgets/", billing.budgets, name="budgets"),
    path("settings/budgets/ledger/", billing.ledger, name="ledger"),
    path("settings/budgets/credits/", billing.credits_add, name="credits_add"),
    path("settings/budgets/set/", billing.budget_set, name="budget_set"),
    path("settings/budgets/<uuid:budget_id>/", billing.budget_change, name="budget_change"),
    path("settings/budgets/<uuid:budget_id>/remove/", billing.budget_remove, name="budget_remove"),
    path("settings/budgets/prices/", billing.price_set, name="price_set"),
    path(
        "settings/budgets/prices/<uuid:price_id>/remove/", billing.price_remove, name="price_remove"
    ),
]
