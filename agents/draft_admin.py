"""Staff's view of drafts: to look at, as a change here would leave no trace in the list of changes."""

from __future__ import annotations

from django.contrib import admin

from agents.models import AgentDraft, DraftChange
from tenants.admin_base import ReadOnlyAdmin


@admin.register(AgentDraft)
class AgentDraftAdmin(ReadOnlyAdmin):
    list_display = ["agent", "workspace", "revision", "created_at"]
    list_filter = ["created_at"]
    list_select_related = ["agent__current", "workspace"]
    search_fields = ["=agent__id", "workspace__name"]


@admin.register(DraftChange)
class DraftChangeAdmin(ReadOnlyAdmin):
    list_display = ["agent", "part", "revision", "workspace", "created_by", "settled", "created_at"]
    list_filter = ["part", "created_at"]
    list_select_related = ["agent__current", "workspace", "created_by"]
    search_fields = ["=id", "=agent__id", "=session_id", "workspace__name"]
