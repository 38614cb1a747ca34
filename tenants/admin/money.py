"""Staff's view of credits: purses, entries, and what was paid for."""

from __future__ import annotations

from django.contrib import admin

from tenants.admin_base import ReadOnlyAdmin
from tenants.models import CreditEntry, ModelCall, Price, Purse, SandboxMinute


@admin.register(Purse)
class PurseAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "kind", "owner_id", "ceiling", "spent", "reserved", "debt"]
    list_filter = ["kind", "period"]
    list_select_related = ["workspace"]
    search_fields = ["=owner_id", "workspace__name"]


@admin.register(CreditEntry)
class CreditEntryAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "workspace", "kind", "amount", "note", "created_by"]
    list_filter = ["kind", "created_at"]
    list_select_related = ["workspace", "created_by"]
    search_fields = ["=id", "workspace__name", "note"]


@admin.register(ModelCall)
class ModelCallAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "workspace", "provider", "model", "state", "reserved", "cost"]
    list_filter = ["state", "purpose", "provider", "created_at"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "=session_id", "=run_id", "workspace__name"]


@admin.register(Price)
class PriceAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "provider", "model", "input_price", "output_price", "created_by"]
    list_filter = ["provider"]
    list_select_related = ["workspace", "created_by"]
    search_fields = ["model", "workspace__name"]


@admin.register(SandboxMinute)
class SandboxMinuteAdmin(ReadOnlyAdmin):
    list_display = ["sandbox", "minute", "workspace"]
    list_filter = ["minute"]
    list_select_related = ["workspace"]
    search_fields = ["sandbox", "workspace__name"]
