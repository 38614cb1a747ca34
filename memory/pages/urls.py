"""The paths of the pages of memory."""

from __future__ import annotations

from django.urls import path

from memory.pages import browse, consolidation, document

urlpatterns = [
    path("memory/", browse.memory, name="memory"),
    path("memory/new/", browse.memory_new, name="memory_new"),
    path("memory/export/", browse.memory_export, name="memory_export"),
    path("memory/import/", browse.memory_import, name="memory_import"),
    path("memory/consolidation/", consolidation.consolidations, name="memory_consolidations"),
    path(
        "memory/consolidation/start/",
        consolidation.consolidation_start,
        name="memory_consolidation_start",
    ),
    path(
        "memory/consolidation/settings/<uuid:agent_id>/",
        consolidation.consolidation_settings,
        name="memory_consolidation_settings",
    ),
    path(
        "memory/consolidation/<uuid:consolidation_id>/",
        consolidation.consolidation,
        name="memory_consolidation",
    ),
    path(
        "memory/consolidation/<uuid:consolidation_id>/<str:decision>/",
        consolidation.consolidation_decide,
        name="memory_consolidation_decide",
    ),
    path("memory/<uuid:entry_id>/", document.memory_document, name="memory_document"),
    path("memory/<uuid:entry_id>/mark/", document.memory_mark, name="memory_mark"),
    path("memory/<uuid:entry_id>/delete/", document.memory_delete, name="memory_delete"),
    path("memory/<uuid:entry_id>/restore/", document.memory_restore, name="memory_restore"),
    path("memory/<uuid:entry_id>/redact/", document.memory_redact, name="memory_redact"),
]
