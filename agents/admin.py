"""Admin pages of agents, environments and provider keys."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from agents import models
from agents.definitions import archive_agent, restore_agent
from agents.environments import EnvironmentInput
from agents.providers.keys import check
from core.admin import ReadOnlyAdmin
from core.exceptions import Fault, InvalidFields
from core.validation import read_input

ENVIRONMENT_FIELDS = tuple(EnvironmentInput.model_fields)


class VersionInline(admin.TabularInline):
    model = models.AgentVersion
    fk_name = "agent"
    fields = ("number", "name", "provider", "model", "created_by", "created_at")
    readonly_fields = ("created_by", "created_at")
    show_change_link = True
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.AgentVersion]:
        return super().get_queryset(request).select_related("created_by")


@admin.register(models.Agent)
class AgentAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "workspace", "version", "provider", "archived_at", "created_at"]
    list_filter = [("archived_at", admin.EmptyFieldListFilter), "current__provider"]
    search_fields = ["=id", "current__name", "workspace__name"]
    str_related = ["current"]
    inlines = [VersionInline]
    actions = ["archive", "restore"]

    @admin.display(ordering="current__number")
    def version(self, agent: models.Agent) -> int | None:
        return agent.current.number if agent.current else None

    @admin.display(ordering="current__provider")
    def provider(self, agent: models.Agent) -> str:
        return f"{agent.current.provider} · {agent.current.model}" if agent.current else ""

    @admin.action(description="Archive", permissions=["act"])
    def archive(self, request: HttpRequest, agents: QuerySet[models.Agent]) -> None:
        for agent in agents:
            archive_agent(agent)

    @admin.action(description="Restore", permissions=["act"])
    def restore(self, request: HttpRequest, agents: QuerySet[models.Agent]) -> None:
        for agent in agents:
            restore_agent(agent)


@admin.register(models.AgentVersion)
class AgentVersionAdmin(ReadOnlyAdmin):
    list_display = ["name", "number", "workspace", "provider", "model", "created_by", "created_at"]
    list_filter = ["provider"]
    search_fields = ["=id", "=agent__id", "name", "workspace__name"]


class EnvironmentForm(forms.ModelForm):
    """Validates staff's input like everyone else's."""

    class Meta:
        model = models.Environment
        fields = ["workspace", *ENVIRONMENT_FIELDS]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        given = {name: cleaned[name] for name in ENVIRONMENT_FIELDS if name in cleaned}
        try:
            return cleaned | read_input(EnvironmentInput, given).model_dump(mode="json")
        except InvalidFields as fault:
            raise forms.ValidationError(fault.detail) from None


@admin.register(models.Environment)
class EnvironmentAdmin(admin.ModelAdmin):
    form = EnvironmentForm
    list_display = ["name", "workspace", "kind", "network", "created_by", "created_at"]
    list_filter = ["kind", "network"]
    list_select_related = ["workspace", "created_by"]
    search_fields = ["=id", "name", "workspace__name"]
    raw_id_fields = ["workspace"]


@admin.register(models.ProviderSettings)
class ProviderSettingsAdmin(ReadOnlyAdmin):
    list_display = ["provider", "workspace", "default_model", "listed_at"]
    list_filter = ["provider"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "provider", "default_model", "workspace__name"]


@admin.register(models.ProviderKey)
class ProviderKeyAdmin(ReadOnlyAdmin):
    """Staff can see that a key exists, test it and delete it, but never read or set it."""

    list_display = ["provider", "workspace", "hint", "base_url", "checked_at", "check_error"]
    list_filter = ["provider"]
    search_fields = ["=id", "provider", "workspace__name"]
    # Listed explicitly, so that a secret field added later is not shown by accident.
    fields = (
        "workspace",
        "provider",
        "base_url",
        "hint",
        "checked_at",
        "check_error",
        "created_by",
    )
    may_delete = True
    actions = ["test_connection"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.ProviderKey]:
        return super().get_queryset(request).defer("secret")

    @admin.action(description="Test the connection", permissions=["act"])
    def test_connection(self, request: HttpRequest, keys: QuerySet[models.ProviderKey]) -> None:
        for key in keys:
            try:
                error = check(workspace_id=key.workspace_id, provider=key.provider).error
            except Fault as fault:
                error = fault.detail
            level = messages.ERROR if error else messages.SUCCESS
            self.message_user(request, f"{key.workspace_id}: {error or 'works'}", level)


@admin.register(models.Canvas)
class CanvasAdmin(ReadOnlyAdmin):
    list_display = ["agent", "workspace", "revision", "published", "published_at"]
    list_filter = ["published_at"]
    search_fields = ["=agent__id", "workspace__name"]


@admin.register(models.CanvasRevision)
class CanvasRevisionAdmin(ReadOnlyAdmin):
    list_display = ["agent", "number", "workspace", "created_by", "session_id", "created_at"]
    list_filter = ["created_at"]
    search_fields = ["=id", "=agent__id", "=session_id", "workspace__name"]


@admin.register(models.AgentDraft)
class AgentDraftAdmin(ReadOnlyAdmin):
    list_display = ["agent", "workspace", "revision", "created_at"]
    list_filter = ["created_at"]
    search_fields = ["=agent__id", "workspace__name"]


@admin.register(models.DraftChange)
class DraftChangeAdmin(ReadOnlyAdmin):
    list_display = ["agent", "part", "revision", "workspace", "created_by", "settled", "created_at"]
    list_filter = ["part", "created_at"]
    search_fields = ["=id", "=agent__id", "=session_id", "workspace__name"]
