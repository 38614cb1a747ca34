"""The addresses of the pages of memory."""

from __future__ import annotations

from django.urls import path

from memory.pages import deeds, document, memory, transfer

urlpatterns = [
    path("memory/", memory.memory, name="memory"),
    path("memory/new/", memory.memory_new, name="memory_new"),
    path("memory/export/", transfer.memory_export, name="memory_export"),
    path("memory/import/", transfer.memory_import, name="memory_import"),
    path("memory/<uuid:entry_id>/", document.memory_document, name="memory_document"),
    path("memory/<uuid:entry_id>/mark/", deeds.memory_mark, name="memory_mark"),
    path("memory/<uuid:entry_id>/delete/", deeds.memory_delete, name="memory_delete"),
    path("memory/<uuid:entry_id>/restore/", deeds.memory_restore, name="memory_restore"),
    path("memory/<uuid:entry_id>/redact/", deeds.memory_redact, name="memory_redact"),
]
