"""URL patterns of the sessions API, below /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from sessions_app.api.approvals import ApprovalViewSet, ExecutionViewSet
from sessions_app.api.context import CompactView, ContextView, SnapshotsView, UndoView
from sessions_app.api.events import EventsView, InterruptView, MessagesView, SessionStream
from sessions_app.api.files import (
    FilesView,
    FileView,
    ResourceRefreshView,
    ResourcesView,
    ResourceView,
)
from sessions_app.api.runs import QueuedView, QueueView, RuntimeView, RunViewSet
from sessions_app.api.schedules import ScheduleViewSet
from sessions_app.api.sessions import (
    ExportView,
    ForkView,
    ImportView,
    SessionViewSet,
    ToolAnalyticsView,
    TreeView,
    WakeView,
)

router = SimpleRouter()
router.register("sessions", SessionViewSet, basename="session")
router.register("runs", RunViewSet, basename="run")
router.register("schedules", ScheduleViewSet, basename="schedule")
router.register("tools/executions", ExecutionViewSet, basename="execution")

#: Below `sessions/{id}/`.
session_urlpatterns = [
    path("events/", EventsView.as_view(), name="session-events"),
    path("messages/", MessagesView.as_view(), name="session-messages"),
    path("stream/", SessionStream.as_view(), name="session-stream"),
    path("wake/", WakeView.as_view(), name="session-wake"),
    path("interrupt/", InterruptView.as_view(), name="session-interrupt"),
    path("fork/", ForkView.as_view(), name="session-fork"),
    path("export/", ExportView.as_view(), name="session-export"),
    path("compact/", CompactView.as_view(), name="session-compact"),
    path("snapshots/", SnapshotsView.as_view(), name="session-snapshots"),
    path("snapshots/<uuid:snapshot_id>/undo/", UndoView.as_view(), name="session-undo"),
    path("context/", ContextView.as_view(), name="session-context"),
    path("tree/", TreeView.as_view(), name="session-tree"),
    path("queue/", QueueView.as_view(), name="session-queue"),
    path("queue/<uuid:run_id>/", QueuedView.as_view(), name="session-queued"),
    path("resources/", ResourcesView.as_view(), name="session-resources"),
    path("resources/<uuid:resource_id>/", ResourceView.as_view(), name="session-resource"),
    path(
        "resources/<uuid:resource_id>/refresh/",
        ResourceRefreshView.as_view(),
        name="session-resource-refresh",
    ),
    path("files/", FilesView.as_view(), name="session-files"),
    path("files/<path:path>", FileView.as_view(), name="session-file"),
]

urlpatterns = [
    path("approvals/", ApprovalViewSet.as_view({"get": "list"}), name="approval-list"),
    path(
        "approvals/<uuid:pk>/",
        ApprovalViewSet.as_view({"get": "retrieve", "post": "answer"}),
        name="approval-detail",
    ),
    path("sessions/import/", ImportView.as_view(), name="session-import"),
    path("sessions/<uuid:session_id>/", include(session_urlpatterns)),
    path("analytics/tools/", ToolAnalyticsView.as_view(), name="analytics-tools"),
    path("runtime/", RuntimeView.as_view(), name="runtime"),
    path("", include(router.urls)),
]
