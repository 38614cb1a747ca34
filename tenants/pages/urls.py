"""The addresses of the pages of tenants."""

from __future__ import annotations

from django.urls import path

from tenants.pages import (
    account,
    home,
    invitation,
    keys,
    members,
    password,
    sign_in,
    sign_up,
    workspaces,
)

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
    path("settings/account/", account.account, name="account"),
]
