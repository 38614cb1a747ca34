"""The admin site of tool policies, custom tools, MCP servers and skills."""

from __future__ import annotations

from django.contrib import admin

from core.admin import ReadOnlyAdmin
from tools_app.models import CustomTool, McpServer, PolicyRevision, Skill, ToolPolicy


@admin.register(ToolPolicy)
class ToolPolicyAdmin(ReadOnlyAdmin):
    """Read-only, because a change here would leave no revision."""

    list_display = ["layer", "subject_id", "workspace", "profile", "revision", "created_at"]
    list_filter = ["layer", "profile"]
    search_fields = ["=id", "=subject_id", "workspace__name"]


@admin.register(PolicyRevision)
class PolicyRevisionAdmin(ReadOnlyAdmin):
    list_display = ["policy_id", "revision", "workspace", "author", "reverts_to", "created_at"]
    list_filter = ["policy__layer"]
    search_fields = ["=id", "=policy__id", "author", "workspace__name"]


@admin.register(CustomTool)
class CustomToolAdmin(ReadOnlyAdmin):
    list_display = ["name", "workspace", "permission", "timeout_seconds", "created_by"]
    list_filter = ["permission"]
    search_fields = ["=id", "name", "workspace__name"]
    may_delete = True  # a tool may mislead agents


@admin.register(McpServer)
class McpServerAdmin(ReadOnlyAdmin):
    list_display = ["name", "workspace", "transport", "url", "enabled", "status", "refreshed_at"]
    list_filter = ["status", "transport", "enabled"]
    search_fields = ["=id", "name", "url", "workspace__name"]
    may_delete = True  # a server may do harm


@admin.register(Skill)
class SkillAdmin(ReadOnlyAdmin):
    """Staff see which skills exist, but not their text, which belongs to the workspace."""

    list_display = ["name", "workspace", "description", "enabled", "updated_at"]
    exclude = ("body",)
    list_filter = ["enabled"]
    search_fields = ["=id", "name", "workspace__name"]
