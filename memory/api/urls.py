"""The REST paths of memory, under /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from memory.api import consolidation, documents

router = SimpleRouter()
router.register("memory", documents.EntryViewSet, basename="memory")
router.register("consolidations", consolidation.ConsolidationViewSet, basename="consolidation")

#: Below `memory/{id}/`.
of_one_entry = [
    path("versions/", documents.VersionViewSet.as_view({"get": "list"}), name="memory-versions"),
    path(
        "versions/<int:number>/",
        documents.VersionViewSet.as_view({"get": "retrieve"}),
        name="memory-version",
    ),
    path(
        "versions/<int:number>/restore/",
        documents.RestoreVersionView.as_view(),
        name="memory-version-restore",
    ),
    path("restore/", documents.RestoreView.as_view(), name="memory-restore"),
    path("redact/", documents.RedactView.as_view(), name="memory-redact"),
]

urlpatterns = [
    path(
        "agents/<uuid:agent_id>/consolidation/",
        consolidation.ChoiceView.as_view(),
        name="agent-consolidation",
    ),
    path("memory/search/", documents.SearchView.as_view(), name="memory-search"),
    path("memory/export/", documents.ExportView.as_view(), name="memory-export"),
    path("memory/import/", documents.ImportView.as_view(), name="memory-import"),
    path("memory/<uuid:entry_id>/", include(of_one_entry)),
    path("", include(router.urls)),
]
