"""Staff's view of canvases: to look at, as a change here would leave no revision."""

from __future__ import annotations

from django.contrib import admin

from agents.models import Canvas, CanvasRevision
from tenants.admin_base import ReadOnlyAdmin


@admin.register(Canvas)
class CanvasAdmin(ReadOnlyAdmin):
    list_display = ["agent", "workspace", "revision", "published", "published_at"]
    list_filter = ["published_at"]
    list_select_related = ["agent__current", "workspace"]
    search_fields = ["=agent__id", "workspace__name"]


@admin.register(CanvasRevision)
class CanvasRevisionAdmin(ReadOnlyAdmin):
    list_display = ["agent", "number", "workspace", "created_by", "session_id", "created_at"]
    list_filter = ["created_at"]
    list_select_related = ["agent__current", "workspace", "created_by"]
    search_fields = ["=id", "=agent__id", "=session_id", "workspace__name"]
