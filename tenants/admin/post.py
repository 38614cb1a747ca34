"""Staff's view of what goes out and comes in: secrets, webhooks, the inbox, mail."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from tenants.admin_base import ReadOnlyAdmin
from tenants.models import InboxItem, InboxRead, Secret, SentMail, Webhook, WebhookDelivery


@admin.register(Secret)
class SecretAdmin(ReadOnlyAdmin):
    """Staff can see that there is a secret, and never what it says."""

    list_display = ["name", "workspace", "hosts", "set_at", "last_used_at"]
    list_filter = ["last_used_at"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "name", "workspace__name"]
    # Named one by one, so that a value is not shown by accident.
    fields = ("workspace", "name", "hosts", "set_at", "last_used_at", "created_by", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Secret]:
        return super().get_queryset(request).defer("value")


@admin.register(Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    list_display = ["url", "workspace", "active", "failures", "failing_since", "created_at"]
    list_filter = ["active", ("failing_since", admin.EmptyFieldListFilter), "created_at"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "url", "workspace__name"]
    exclude = ["secret", "old_secret"]


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    list_display = ["type", "webhook", "status", "attempts", "response_status", "created_at"]
    list_filter = ["status", "created_at"]
    list_select_related = ["webhook"]
    search_fields = ["=id", "type", "webhook__url"]
    exclude = ["body"]


@admin.register(InboxItem)
class InboxItemAdmin(ReadOnlyAdmin):
    list_display = ["title", "kind", "workspace", "user", "created_at"]
    list_filter = ["kind", "created_at"]
    list_select_related = ["workspace", "user"]
    search_fields = ["=id", "title", "workspace__name"]
    exclude = ["body"]


@admin.register(InboxRead)
class InboxReadAdmin(ReadOnlyAdmin):
    list_display = ["item", "user", "read_at"]
    list_filter = ["read_at"]
    list_select_related = ["item", "user"]
    search_fields = ["=item__id", "user__email"]


@admin.register(SentMail)
class SentMailAdmin(ReadOnlyAdmin):
    list_display = ["recipient", "subject", "workspace", "created_at"]
    list_filter = ["created_at"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "recipient", "workspace__name"]
