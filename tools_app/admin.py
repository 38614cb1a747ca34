"""Staff's view of tool policies."""

from __future__ import annotations

from django.contrib import admin

from tenants.admin_base import ReadOnlyAdmin
from tools_app.models import PolicyRevision, ToolPolicy


@admin.register(ToolPolicy)
class ToolPolicyAdmin(ReadOnlyAdmin):
    """To look at: a change here would leave no revision."""

    list_display = ["layer", "subject_id", "workspace", "profile", "revision", "created_at"]
    list_filter = ["layer", "profile"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "=subject_id", "workspace__name"]


@admin.register(PolicyRevision)
class PolicyRevisionAdmin(ReadOnlyAdmin):
    list_display = ["policy_id", "revision", "workspace", "author", "reverts_to", "created_at"]
    list_filter = ["policy__layer"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "=policy__id", "author", "workspace__name"]
