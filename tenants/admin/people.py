"""Staff's view of workspaces, people, and how they get in."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest

from tenants.admin_base import ReadOnlyAdmin, StaffAdmin
from tenants.keys import revoke_keys_of
from tenants.models import (
    ApiKey,
    Invitation,
    Membership,
    SignInAttempt,
    SignInLink,
    User,
    Workspace,
)


@admin.register(Workspace)
class WorkspaceAdmin(StaffAdmin):
    list_display = ["name", "slug", "members", "created_at"]
    list_filter = ["created_at"]
    search_fields = ["=id", "name", "slug"]
    readonly_fields = ["id", "created_at"]
    prepopulated_fields = {"slug": ["name"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workspace]:
        members = Membership.objects.filter(workspace=OuterRef("pk")).order_by().values("workspace")
        counted = members.annotate(number=Count("pk")).values("number")
        return super().get_queryset(request).annotate(members=Coalesce(Subquery(counted), 0))

    @admin.display(ordering="members")
    def members(self, workspace: Workspace) -> int:
        return int(getattr(workspace, "members", 0))


class UserAddForm(AdminUserCreationForm):
    class Meta:
        model = User
        fields = ("email", "name")


class UserEditForm(UserChangeForm):
    class Meta:
        model = User
        fields = "__all__"


@admin.register(User)
class UserAdmin(DjangoUserAdmin):
    form = UserEditForm
    add_form = UserAddForm
    ordering = ["email"]
    list_display = ["email", "name", "is_active", "is_staff", "last_login", "created_at"]
    list_filter = ["is_active", "is_staff", "is_superuser", "created_at"]
    search_fields = ["=id", "email", "name"]
    readonly_fields = ["id", "last_login", "created_at"]
    filter_horizontal = ["groups", "user_permissions"]
    show_full_result_count = False
    actions = ["switch_off", "switch_on"]
    fieldsets = [
        (None, {"fields": ["id", "email", "name", "password"]}),
        (
            "Rights",
            {"fields": ["is_active", "is_staff", "is_superuser", "groups", "user_permissions"]},
        ),
        ("Dates", {"fields": ["last_login", "created_at"]}),
    ]
    add_fieldsets = [
        (None, {"fields": ["email", "name", "usable_password", "password1", "password2"]}),
    ]

    @admin.action(description="Switch off: sign out everywhere", permissions=["change"])
    def switch_off(self, request: HttpRequest, people: QuerySet[User]) -> None:
        changed = people.exclude(email=request.user.get_username()).update(is_active=False)
        self.message_user(request, f"{changed} switched off.")

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        # A key that outlived its maker would look like one that nobody made.
        revoke_keys_of(obj.pk)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for person in queryset:
            revoke_keys_of(person.pk)
        super().delete_queryset(request, queryset)

    @admin.action(description="Switch on again", permissions=["change"])
    def switch_on(self, request: HttpRequest, people: QuerySet[User]) -> None:
        self.message_user(request, f"{people.update(is_active=True)} switched on.")


@admin.register(Membership)
class MembershipAdmin(StaffAdmin):
    list_display = ["user", "workspace", "role", "created_by", "created_at"]
    list_filter = ["role", "created_at"]
    list_select_related = ["user", "workspace", "created_by"]
    search_fields = ["=id", "user__email", "user__name", "workspace__name"]
    readonly_fields = ["id", "created_by", "created_at"]


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    list_display = [
        "name",
        "prefix",
        "workspace",
        "scope",
        "last_used_at",
        "expires_at",
        "revoked_at",
        "created_by",
    ]
    list_filter = ["scope", ("revoked_at", admin.EmptyFieldListFilter), "created_at"]
    list_select_related = ["workspace", "created_by"]
    search_fields = ["=id", "name", "prefix", "workspace__name", "created_by__email"]
    exclude = ["digest"]
    actions = ["revoke"]

    @admin.action(description="Revoke: close the door at once", permissions=["act"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        closed = keys.filter(revoked_at=None).update(revoked_at=Now())
        self.message_user(request, f"{closed} revoked.")


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    list_display = ["email", "workspace", "role", "expires_at", "accepted_at", "created_by"]
    list_filter = ["role", ("accepted_at", admin.EmptyFieldListFilter), "expires_at"]
    list_select_related = ["workspace", "created_by"]
    search_fields = ["=id", "email", "workspace__name"]
    exclude = ["digest"]
    actions = ["withdraw"]

    @admin.action(description="Withdraw what nobody has taken", permissions=["act"])
    def withdraw(self, request: HttpRequest, invitations: QuerySet[Invitation]) -> None:
        gone, _ = invitations.filter(accepted_at=None).delete()
        self.message_user(request, f"{gone} withdrawn.")


@admin.register(SignInLink)
class SignInLinkAdmin(ReadOnlyAdmin):
    list_display = ["user", "created_at", "expires_at", "used_at"]
    list_filter = [("used_at", admin.EmptyFieldListFilter), "created_at"]
    list_select_related = ["user"]
    search_fields = ["=id", "user__email"]
    exclude = ["digest"]
    actions = ["use_up"]

    @admin.action(description="Use up: the link no longer works", permissions=["act"])
    def use_up(self, request: HttpRequest, links: QuerySet[SignInLink]) -> None:
        self.message_user(request, f"{links.filter(used_at=None).update(used_at=Now())} used up.")


@admin.register(SignInAttempt)
class SignInAttemptAdmin(ReadOnlyAdmin):
    """Deleting rows lets somebody try again before their quarter of an hour is over."""

    list_display = ["at", "email_digest", "client"]
    list_filter = ["at"]
    search_fields = ["=email_digest", "=client"]
    actions = ["forgive"]

    @admin.action(description="Forgive: let them try again", permissions=["act"])
    def forgive(self, request: HttpRequest, attempts: QuerySet[SignInAttempt]) -> None:
        gone, _ = attempts.delete()
        self.message_user(request, f"{gone} forgiven.")
