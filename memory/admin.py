"""Admin pages of memory: read-only, except for redaction."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from core.admin import ReadOnlyAdmin
from memory import models
from memory.documents import redact


@admin.register(models.MemoryEntry)
class MemoryEntryAdmin(ReadOnlyAdmin):
    list_display = ["path", "workspace", "scope", "pinned", "never_recall", "trust", "updated_at"]
    list_filter = ["scope", "pinned", "never_recall", "trust", "deleted_at"]
    search_fields = ["=id", "=owner_id", "path", "workspace__name"]
    actions = ["redact_all"]

    @admin.action(description="Redact every version", permissions=["act"])
    def redact_all(self, request: HttpRequest, entries: QuerySet[models.MemoryEntry]) -> None:
        for entry in entries:
            redact(entry, by=request.user.pk)


@admin.register(models.MemoryVersion)
class MemoryVersionAdmin(ReadOnlyAdmin):
    list_display = ["entry", "number", "workspace", "author", "tool", "redacted_at", "created_at"]
    list_filter = ["author", "trust", ("redacted_at", admin.EmptyFieldListFilter)]
    search_fields = ["=id", "=entry__id", "=session_id", "=run_id", "workspace__name"]


@admin.register(models.Consolidation)
class ConsolidationAdmin(ReadOnlyAdmin):
    list_display = ["agent", "status", "workspace", "documents", "notes", "cost", "created_at"]
    list_filter = ["status"]
    search_fields = ["=id", "=agent__id", "=run_id", "workspace__name"]


@admin.register(models.ConsolidationChange)
class ConsolidationChangeAdmin(ReadOnlyAdmin):
    list_display = ["path", "action", "outcome", "workspace", "created_at"]
    list_filter = ["action", "outcome"]
    search_fields = ["=id", "=consolidation__id", "=entry__id", "workspace__name"]
    exclude = ["content"]


@admin.register(models.ConsolidationChoice)
class ConsolidationChoiceAdmin(ReadOnlyAdmin):
    list_display = ["agent", "applies_itself", "budget", "workspace", "created_at"]
    list_filter = ["applies_itself"]
    search_fields = ["=id", "=agent__id", "workspace__name"]


@admin.register(models.MemoryChunk)
class MemoryChunkAdmin(ReadOnlyAdmin):
    list_display = ["entry", "position", "workspace", "scope", "created_at"]
    list_filter = ["scope"]
    search_fields = ["=id", "=entry__id", "=owner_id", "workspace__name"]
    exclude = ["tsv"]


@admin.register(models.MemoryVector)
class MemoryVectorAdmin(ReadOnlyAdmin):
    list_display = ["chunk", "model", "dimensions", "workspace", "created_at"]
    list_filter = ["model"]
    search_fields = ["=id", "=chunk__id", "=owner_id", "workspace__name"]
    exclude = ["vector"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[models.MemoryVector]:
        return super().get_queryset(request).defer("vector")


@admin.register(models.EmbeddingChoice)
class EmbeddingChoiceAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "model", "coming", "created_at"]
    list_filter = ["model"]
    search_fields = ["=id", "workspace__name", "model"]
