"""The admin site of tool policies, custom tools, MCP servers and skills."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from core.admin import ReadOnlyAdmin
from tools_app.models import CustomTool, McpServer, PolicyRevision, Skill, ToolPolicy


@admin.register(ToolPolicy)
class ToolPolicyAdmin(ReadOnlyAdmin):
    """Read-only, because a change here would leave no revision."""

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


@admin.register(CustomTool)
class CustomToolAdmin(ReadOnlyAdmin):
    list_display = ["name", "workspace", "permission", "timeout_seconds", "created_by"]
    list_filter = ["permission"]
    list_select_related = ["workspace", "created_by"]
    search_fields = ["=id", "name", "workspace__name"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow deleting a tool that misleads agents."""
        return bool(request.user.has_perm("tools_app.delete_customtool"))


@admin.register(McpServer)
class McpServerAdmin(ReadOnlyAdmin):
    list_display = ["name", "workspace", "transport", "url", "enabled", "status", "refreshed_at"]
    list_filter = ["status", "transport", "enabled"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "name", "url", "workspace__name"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow deleting a server that does harm."""
        return bool(request.user.has_perm("tools_app.delete_mcpserver"))


@admin.register(Skill)
class SkillAdmin(ReadOnlyAdmin):
    """Staff see which skills exist, but not their text, which belongs to the workspace."""

    list_display = ["name", "workspace", "description", "enabled", "updated_at"]
    exclude = ("body",)
    list_filter = ["enabled"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "name", "workspace__name"]
