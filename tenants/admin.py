"""The staff site of tenants: workspaces, users, access, billing and notifications."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.db.models import Count, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest

from core.admin import ReadOnlyAdmin, StaffAdmin
from core.exceptions import Invalid
from core.ids import uuid7
from tenants import models
from tenants.billing.credits import add_credits, check_amount
from tenants.keys import revoke_keys_of


@admin.register(models.Workspace)
class WorkspaceAdmin(StaffAdmin):
    list_display = ["name", "slug", "members", "created_at"]
    list_filter = ["created_at"]
    search_fields = ["=id", "name", "slug"]
    readonly_fields = ["id", "created_at"]
    prepopulated_fields = {"slug": ["name"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.Workspace]:
        members = (
            models.Membership.objects.filter(workspace=OuterRef("pk"))
            .order_by()
            .values("workspace")
        )
        counted = members.annotate(number=Count("pk")).values("number")
        return super().get_queryset(request).annotate(members=Coalesce(Subquery(counted), 0))

    @admin.display(ordering="members")
    def members(self, workspace: models.Workspace) -> int:
        return int(getattr(workspace, "members", 0))


class UserAddForm(AdminUserCreationForm):
    class Meta:
        model = models.User
        fields = ("email", "name")


class UserEditForm(UserChangeForm):
    class Meta:
        model = models.User
        fields = "__all__"


@admin.register(models.User)
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

    @admin.action(description="Deactivate and sign out everywhere", permissions=["change"])
    def switch_off(self, request: HttpRequest, people: QuerySet[models.User]) -> None:
        changed = people.exclude(email=request.user.get_username()).update(is_active=False)
        self.message_user(request, f"{changed} deactivated.")

    def delete_model(self, request: HttpRequest, obj: models.User) -> None:
        # A key whose creator was deleted would look like one without a creator, which stays valid.
        revoke_keys_of(obj.pk)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[models.User]) -> None:
        for person in queryset:
            revoke_keys_of(person.pk)
        super().delete_queryset(request, queryset)

    @admin.action(description="Activate", permissions=["change"])
    def switch_on(self, request: HttpRequest, people: QuerySet[models.User]) -> None:
        self.message_user(request, f"{people.update(is_active=True)} activated.")


@admin.register(models.Membership)
class MembershipAdmin(StaffAdmin):
    list_display = ["user", "workspace", "role", "created_by", "created_at"]
    list_filter = ["role", "created_at"]
    search_fields = ["=id", "user__email", "user__name", "workspace__name"]
    readonly_fields = ["id", "created_by", "created_at"]


@admin.register(models.ApiKey)
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
    search_fields = ["=id", "name", "prefix", "workspace__name", "created_by__email"]
    exclude = ["digest"]
    actions = ["revoke"]

    @admin.action(description="Revoke", permissions=["act"])
    def revoke(self, request: HttpRequest, keys: QuerySet[models.ApiKey]) -> None:
        revoked = keys.filter(revoked_at=None).update(revoked_at=Now())
        self.message_user(request, f"{revoked} revoked.")


@admin.register(models.Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    list_display = ["email", "workspace", "role", "expires_at", "accepted_at", "created_by"]
    list_filter = ["role", ("accepted_at", admin.EmptyFieldListFilter), "expires_at"]
    search_fields = ["=id", "email", "workspace__name"]
    exclude = ["digest"]
    actions = ["withdraw"]

    @admin.action(description="Withdraw pending invitations", permissions=["act"])
    def withdraw(self, request: HttpRequest, invitations: QuerySet[models.Invitation]) -> None:
        withdrawn, _ = invitations.filter(accepted_at=None).delete()
        self.message_user(request, f"{withdrawn} withdrawn.")


@admin.register(models.SignInLink)
class SignInLinkAdmin(ReadOnlyAdmin):
    list_display = ["user", "created_at", "expires_at", "used_at"]
    list_filter = [("used_at", admin.EmptyFieldListFilter), "created_at"]
    search_fields = ["=id", "user__email"]
    exclude = ["digest"]
    actions = ["use_up"]

    @admin.action(description="Expire", permissions=["act"])
    def use_up(self, request: HttpRequest, links: QuerySet[models.SignInLink]) -> None:
        self.message_user(request, f"{links.filter(used_at=None).update(used_at=Now())} expired.")


@admin.register(models.SignInAttempt)
class SignInAttemptAdmin(ReadOnlyAdmin):
    """Failed sign-ins. Deleting them lifts a lockout early."""

    list_display = ["at", "email_digest", "client"]
    list_filter = ["at"]
    search_fields = ["=email_digest", "=client"]
    actions = ["forgive"]

    @admin.action(description="Delete, so that the user can try again", permissions=["act"])
    def forgive(self, request: HttpRequest, attempts: QuerySet[models.SignInAttempt]) -> None:
        deleted, _ = attempts.delete()
        self.message_user(request, f"{deleted} deleted.")


@admin.register(models.Purse)
class PurseAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "kind", "owner_id", "ceiling", "spent", "reserved", "debt"]
    list_filter = ["kind", "period"]
    search_fields = ["=owner_id", "workspace__name"]


class CreditForm(forms.ModelForm):
    """Credits for a workspace. `once` becomes the entry's id, so that a second submit adds nothing."""

    once = forms.UUIDField(widget=forms.HiddenInput, initial=uuid7)
    kind = forms.ChoiceField(
        choices=[
            (kind.value, kind.label)
            for kind in (models.CreditEntry.Kind.GRANT, models.CreditEntry.Kind.ADJUSTMENT)
        ]
    )

    class Meta:
        model = models.CreditEntry
        fields = ("workspace", "kind", "amount", "note")

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if not self.errors:
            try:
                check_amount(given["amount"], kind=given["kind"])
            except Invalid as fault:
                self.add_error("amount", fault.detail)
        return given


@admin.register(models.CreditEntry)
class CreditEntryAdmin(ReadOnlyAdmin):
    """The ledger of credits. Staff with the permission add entries, to any workspace."""

    form = CreditForm
    list_display = ["created_at", "workspace", "kind", "amount", "note", "created_by"]
    list_filter = ["kind", "created_at"]
    search_fields = ["=id", "workspace__name", "note"]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("tenants.add_creditentry")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = ("workspace", "kind", "amount", "note", "once")
        return super().get_fields(request, obj) if obj else fields

    def save_model(
        self, request: HttpRequest, obj: Model, form: forms.ModelForm, change: bool
    ) -> None:
        assert isinstance(obj, models.CreditEntry)  # noqa: S101 - the model of this page
        entry = add_credits(
            obj.workspace_id,
            obj.amount,
            kind=obj.kind,
            note=obj.note,
            author=models.User.objects.filter(email=request.user.get_username()).first(),
            entry_id=form.cleaned_data["once"],
        )
        obj.pk = entry.pk


@admin.register(models.ModelCall)
class ModelCallAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "workspace", "provider", "model", "state", "reserved", "cost"]
    list_filter = ["state", "purpose", "provider", "created_at"]
    search_fields = ["=id", "=session_id", "=run_id", "workspace__name"]


@admin.register(models.UsageRollup)
class UsageRollupAdmin(ReadOnlyAdmin):
    list_display = ["day", "workspace", "dimension", "key", "calls", "cost"]
    list_filter = ["dimension", "day"]
    search_fields = ["=key", "workspace__name"]


@admin.register(models.SessionUsage)
class SessionUsageAdmin(ReadOnlyAdmin):
    list_display = ["key", "workspace", "first_day", "last_day", "calls", "cost"]
    list_filter = ["first_day", "last_day"]
    search_fields = ["=key", "workspace__name"]


@admin.register(models.Price)
class PriceAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "provider", "model", "input_price", "output_price", "created_by"]
    list_filter = ["provider"]
    search_fields = ["model", "workspace__name"]


@admin.register(models.SandboxMinute)
class SandboxMinuteAdmin(ReadOnlyAdmin):
    list_display = ["sandbox", "minute", "workspace"]
    list_filter = ["minute"]
    search_fields = ["sandbox", "workspace__name"]


@admin.register(models.Secret)
class SecretAdmin(ReadOnlyAdmin):
    """Shows that a secret exists, never its value."""

    list_display = ["name", "workspace", "hosts", "set_at", "last_used_at"]
    list_filter = ["last_used_at"]
    search_fields = ["=id", "name", "workspace__name"]
    # An explicit list, so that the value is not shown by accident.
    fields = ("workspace", "name", "hosts", "set_at", "last_used_at", "created_by", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.Secret]:
        return super().get_queryset(request).defer("value")


@admin.register(models.Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    list_display = ["url", "workspace", "active", "failures", "failing_since", "created_at"]
    list_filter = ["active", ("failing_since", admin.EmptyFieldListFilter), "created_at"]
    search_fields = ["=id", "url", "workspace__name"]
    exclude = ["secret", "old_secret"]


@admin.register(models.WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    list_display = ["type", "webhook", "status", "attempts", "response_status", "created_at"]
    list_filter = ["status", "created_at"]
    search_fields = ["=id", "type", "webhook__url"]
    exclude = ["body"]


@admin.register(models.InboxItem)
class InboxItemAdmin(ReadOnlyAdmin):
    list_display = ["title", "kind", "workspace", "user", "created_at"]
    list_filter = ["kind", "created_at"]
    search_fields = ["=id", "title", "workspace__name"]
    exclude = ["body"]


@admin.register(models.InboxRead)
class InboxReadAdmin(ReadOnlyAdmin):
    list_display = ["item", "user", "read_at"]
    list_filter = ["read_at"]
    search_fields = ["=item__id", "user__email"]


@admin.register(models.SentMail)
class SentMailAdmin(ReadOnlyAdmin):
    list_display = ["recipient", "subject", "workspace", "created_at"]
    list_filter = ["created_at"]
    search_fields = ["=id", "recipient", "workspace__name"]


@admin.register(models.IdempotentAnswer)
class IdempotentAnswerAdmin(ReadOnlyAdmin):
    list_display = ["key_digest", "workspace", "status", "content_type", "created_at"]
    list_filter = ["status", "created_at"]
    search_fields = ["=key_digest", "workspace__name"]
    exclude = ["body"]


@admin.register(models.WorkspaceStorage)
class WorkspaceStorageAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "bytes", "is_full"]
    list_filter = ["is_full"]
    search_fields = ["workspace__name"]
    ordering = ["-bytes"]


@admin.register(models.StorageGrowth)
class StorageGrowthAdmin(ReadOnlyAdmin):
    """Bytes that are not yet part of the sums."""

    list_display = ["id", "workspace", "bytes"]
    list_filter = [("bytes", admin.AllValuesFieldListFilter)]
    search_fields = ["workspace__name"]


@admin.register(models.Pulse)
class PulseAdmin(ReadOnlyAdmin):
    list_display = ["kind", "host", "pid", "at"]
    list_filter = ["kind", "host"]
    search_fields = ["kind", "host", "=pid"]


admin.site.site_header = admin.site.site_title = "Switchyard staff"
