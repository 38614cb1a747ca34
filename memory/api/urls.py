"""The REST paths of memory, under /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from memory.api.documents import (
    EntryViewSet,
    ExportView,
    ImportView,
    RedactView,
    RestoreVersionView,
    RestoreView,
    SearchView,
    VersionViewSet,
)

router = SimpleRouter()
router.register("memory", EntryViewSet, basename="memory")

#: Below `memory/{id}/`.
of_one_entry = [
    path("versions/", VersionViewSet.as_view({"get": "list"}), name="memory-versions"),
    path(
        "versions/<int:number>/",
        VersionViewSet.as_view({"get": "retrieve"}),
        name="memory-version",
    ),
    path(
        "versions/<int:number>/restore/",
        RestoreVersionView.as_view(),
        name="memory-version-restore",
    ),
    path("restore/", RestoreView.as_view(), name="memory-restore"),
    path("redact/", RedactView.as_view(), name="memory-redact"),
]

urlpatterns = [
    path("memory/search/", SearchView.as_view(), name="memory-search"),
    path("memory/export/", ExportView.as_view(), name="memory-export"),
    path("memory/import/", ImportView.as_view(), name="memory-import"),
    path("memory/<uuid:entry_id>/", include(of_one_entry)),
    path("", include(router.urls)),
]
