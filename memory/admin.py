"""Admin pages of memory: read-only, except for redaction."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from core.admin import ReadOnlyAdmin
from memory.documents import redact
from memory.models import (
    EmbeddingChoice,
    MemoryChunk,
    MemoryEntry,
    MemoryVector,
    MemoryVersion,
)


@admin.register(MemoryEntry)
class MemoryEntryAdmin(ReadOnlyAdmin):
    list_display = ["path", "workspace", "scope", "pinned", "never_recall", "trust", "updated_at"]
    list_filter = ["scope", "pinned", "never_recall", "trust", "deleted_at"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "=owner_id", "path", "workspace__name"]
    actions = ["redact_all"]

    @admin.action(description="Redact every version", permissions=["act"])
    def redact_all(self, request: HttpRequest, entries: QuerySet[MemoryEntry]) -> None:
        for entry in entries:
            redact(entry, by=request.user.pk)


@admin.register(MemoryVersion)
class MemoryVersionAdmin(ReadOnlyAdmin):
    list_display = ["entry", "number", "workspace", "author", "tool", "redacted_at", "created_at"]
    list_filter = ["author", "trust", ("redacted_at", admin.EmptyFieldListFilter)]
    list_select_related = ["entry", "workspace"]
    search_fields = ["=id", "=entry__id", "=session_id", "=run_id", "workspace__name"]


@admin.register(MemoryChunk)
class MemoryChunkAdmin(ReadOnlyAdmin):
    list_display = ["entry", "position", "workspace", "scope", "created_at"]
    list_filter = ["scope"]
    list_select_related = ["entry", "workspace"]
    search_fields = ["=id", "=entry__id", "=owner_id", "workspace__name"]
    exclude = ["tsv"]


@admin.register(MemoryVector)
class MemoryVectorAdmin(ReadOnlyAdmin):
    list_display = ["chunk", "model", "dimensions", "workspace", "created_at"]
    list_filter = ["model"]
    list_select_related = ["chunk", "workspace"]
    search_fields = ["=id", "=chunk__id", "=owner_id", "workspace__name"]
    exclude = ["vector"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[MemoryVector]:
        return super().get_queryset(request).defer("vector")


@admin.register(EmbeddingChoice)
class EmbeddingChoiceAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "model", "coming", "created_at"]
    list_filter = ["model"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "workspace__name", "model"]
