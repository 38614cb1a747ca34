"""URL patterns of the sessions API, below /api/v1/."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from sessions_app.api import (
    approvals,
    context,
    events,
    feedback,
    files,
    runs,
    schedules,
    sessions,
)

router = SimpleRouter()
router.register("sessions", sessions.SessionViewSet, basename="session")
router.register("runs", runs.RunViewSet, basename="run")
router.register("feedback", feedback.FeedbackViewSet, basename="feedback")
router.register("schedules", schedules.ScheduleViewSet, basename="schedule")
router.register("tools/executions", approvals.ExecutionViewSet, basename="execution")

#: Below `sessions/{id}/`.
session_urlpatterns = [
    path("events/", events.EventsView.as_view(), name="session-events"),
    path("messages/", events.MessagesView.as_view(), name="session-messages"),
    path("stream/", events.SessionStream.as_view(), name="session-stream"),
    path("wake/", sessions.WakeView.as_view(), name="session-wake"),
    path("interrupt/", events.InterruptView.as_view(), name="session-interrupt"),
    path("feedback/<int:seq>/", feedback.AnswerFeedbackView.as_view(), name="session-feedback"),
    path("fork/", sessions.ForkView.as_view(), name="session-fork"),
    path("export/", sessions.ExportView.as_view(), name="session-export"),
    path("compact/", context.CompactView.as_view(), name="session-compact"),
    path("snapshots/", context.SnapshotsView.as_view(), name="session-snapshots"),
    path("snapshots/<uuid:snapshot_id>/undo/", context.UndoView.as_view(), name="session-undo"),
    path("context/", context.ContextView.as_view(), name="session-context"),
    path("tree/", sessions.TreeView.as_view(), name="session-tree"),
    path("queue/", runs.QueueView.as_view(), name="session-queue"),
    path("queue/<uuid:run_id>/", runs.QueuedView.as_view(), name="session-queued"),
    path("resources/", files.ResourcesView.as_view(), name="session-resources"),
    path("resources/<uuid:resource_id>/", files.ResourceView.as_view(), name="session-resource"),
    path(
        "resources/<uuid:resource_id>/refresh/",
        files.ResourceRefreshView.as_view(),
        name="session-resource-refresh",
    ),
    path("files/", files.FilesView.as_view(), name="session-files"),
    path("files/<path:path>", files.FileView.as_view(), name="session-file"),
]

urlpatterns = [
    path("runtime/", runs.RuntimeView.as_view(), name="runtime"),
    path("approvals/", approvals.ApprovalViewSet.as_view({"get": "list"}), name="approval-list"),
    path(
        "approvals/<uuid:pk>/",
        approvals.ApprovalViewSet.as_view({"get": "retrieve", "post": "answer"}),
        name="approval-detail",
    ),
    path("sessions/import/", sessions.ImportView.as_view(), name="session-import"),
    path("sessions/<uuid:session_id>/", include(session_urlpatterns)),
    path("analytics/tools/", sessions.ToolAnalyticsView.as_view(), name="analytics-tools"),
    path("", include(router.urls)),
]
