"""The addresses of the pages of tenants."""

from __future__ import annotations

from django.urls import include, path

from tenants.pages import (
    account,
    home,
    inbox,
    invitation,
    keys,
    members,
    password,
    sign_in,
    sign_up,
    vault,
    webhooks,
    workspaces,
)

of_one_webhook = [
    path("switch/", webhooks.webhook_switch, name="webhook_switch"),
    path("ping/", webhooks.webhook_ping, name="webhook_ping"),
    path("rotate/", webhooks.webhook_rotate, name="webhook_rotate"),
    path("remove/", webhooks.webhook_remove, name="webhook_remove"),
]

urlpatterns = [
    path("", home.home, name="home"),
    path("sign-in/", sign_in.sign_in, name="sign_in"),
    path("sign-in/<str:token>/", sign_in.sign_in_link, name="sign_in_link"),
    path("sign-out/", sign_in.sign_out, name="sign_out"),
    path("sign-up/", sign_up.sign_up, name="sign_up"),
    path("invitations/<str:token>/", invitation.invitation, name="invitation"),
    path("password/", password.password, name="password"),
    path("password/reset/", password.password_reset, name="password_reset"),
    path("password/reset/sent/", password.password_reset_sent, name="password_reset_sent"),
    path(
        "password/reset/<uidb64>/<token>/",
        password.PasswordResetConfirm.as_view(),
        name="password_reset_confirm",
    ),
    path("workspaces/new/", workspaces.workspace_new, name="workspace_new"),
    path("workspaces/switch/", workspaces.workspace_switch, name="workspace_switch"),
    path("settings/", workspaces.settings, name="settings"),
    path("settings/workspace/", workspaces.workspace, name="workspace"),
    path("settings/workspace/mail/", workspaces.workspace_mail, name="workspace_mail"),
    path("settings/members/", members.members, name="members"),
    path("settings/members/invite/", members.member_invite, name="member_invite"),
    path("settings/members/<uuid:membership_id>/role/", members.member_role, name="member_role"),
    path(
        "settings/members/<uuid:membership_id>/remove/",
        members.member_remove,
        name="member_remove",
    ),
    path(
        "settings/invitations/<uuid:invitation_id>/withdraw/",
        members.invitation_withdraw,
        name="invitation_withdraw",
    ),
    path("settings/keys/", keys.keys, name="keys"),
    path("settings/keys/new/", keys.key_new, name="key_new"),
    path("settings/keys/<uuid:key_id>/revoke/", keys.key_revoke, name="key_revoke"),
    path("settings/vault/", vault.vault_page, name="vault"),
    path("settings/vault/new/", vault.secret_new, name="secret_new"),
    path("settings/vault/<uuid:secret_id>/replace/", vault.secret_replace, name="secret_replace"),
    path("settings/vault/<uuid:secret_id>/delete/", vault.secret_delete, name="secret_delete"),
    path("settings/webhooks/", webhooks.webhooks, name="webhooks"),
    path("settings/webhooks/new/", webhooks.webhook_new, name="webhook_new"),
    path("settings/webhooks/<uuid:webhook_id>/", webhooks.webhook, name="webhook"),
    path("settings/webhooks/<uuid:webhook_id>/", include(of_one_webhook)),
    path(
        "settings/webhooks/deliveries/<uuid:delivery_id>/replay/",
        webhooks.webhook_replay,
        name="webhook_replay",
    ),
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/read-all/", inbox.inbox_read_all, name="inbox_read_all"),
    path("inbox/<uuid:item_id>/", inbox.inbox_item, name="inbox_item"),
    path("inbox/<uuid:item_id>/unread/", inbox.inbox_unread, name="inbox_unread"),
    path("settings/account/", account.account, name="account"),
]
