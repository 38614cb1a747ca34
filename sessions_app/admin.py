"""The Django admin for sessions: their logs, runs, tool calls and resources."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import Truncator

from agents.models import Agent
from core.admin import ReadOnlyAdmin, act_on_each
from sessions_app import models
from sessions_app.lanes import run_queue
from sessions_app.search import find_matches
from sessions_app.sessions import retry_run
from tenants.models import Workspace

#: Sessions that a search by words finds: one page, the newest first.
MOST_FOUND = 50


@admin.register(models.Session)
class SessionAdmin(ReadOnlyAdmin):
    list_display = [
        "__str__",
        "workspace",
        "agent",
        "status",
        "last_seq",
        "active_at",
        "archived_at",
        "links",
    ]
    list_filter = ["status", ("archived_at", admin.EmptyFieldListFilter), "active_at"]
    search_fields = ["=id", "title"]
    actions = ["stop"]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[models.Session], search_term: str
    ) -> tuple[QuerySet[models.Session], bool]:
        """Find sessions by index, and those of agents and workspaces with this name.

        The default compares the text with every session, joined with its agent and its workspace.
        """
        text = search_term.strip()
        if not text:
            return queryset, False
        newest = models.Session.objects.order_by("-pk")
        found = Q(pk__in=list(find_matches(newest, text, limit=MOST_FOUND)))
        for name, rows in (
            ("workspace", Workspace.objects.filter(name__icontains=text)),
            ("agent", Agent.objects.filter(current__name__icontains=text)),
        ):
            if ids := list(rows.values_list("pk", flat=True)[:MOST_FOUND]):
                found |= Q(**{f"{name}__in": ids})
        with suppress(ValueError):
            found |= Q(pk=UUID(text))
        return queryset.filter(found), False

    @admin.display(description="Links")
    def links(self, session: models.Session) -> str:
        """Return links to the rows of a session here, and to its page for members of its workspace."""
        about = f"?q={session.pk}"
        return format_html(
            '<a href="{}">Events</a> · <a href="{}">Runs</a> · <a href="{}">Calls</a> · <a href="{}">Page</a>',
            reverse("admin:sessions_app_sessionevent_changelist") + about,
            reverse("admin:sessions_app_run_changelist") + about,
            reverse("admin:sessions_app_toolexecution_changelist") + about,
            reverse("session_page", args=[session.pk]),
        )

    @admin.action(description="Stop running and waiting runs", permissions=["act"])
    def stop(self, request: HttpRequest, sessions: QuerySet[models.Session]) -> None:
        stopped = [
            run_queue.stop(session.pk, note="Stopped by staff.", author_id=request.user.pk).run_id
            for session in sessions
        ]
        self.message_user(request, f"Runs stopped: {len([run for run in stopped if run])}.")


@admin.register(models.SessionEvent)
class SessionEventAdmin(ReadOnlyAdmin):
    list_display = ["seq", "type", "text", "session", "workspace", "created_at", "processed_at"]
    list_filter = ["type", "created_at", ("processed_at", admin.EmptyFieldListFilter)]
    search_fields = ["=id", "=session__id", "session__title", "payload__text"]
    ordering = ["-created_at", "-seq"]

    @admin.display
    def text(self, event: models.SessionEvent) -> str:
        return Truncator(str(event.payload.get("text") or event.payload)).chars(80)


@admin.register(models.Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "session",
        "status",
        "stop_reason",
        "attempts",
        "created_at",
        "started_at",
        "finished_at",
    ]
    list_filter = ["status", "stop_reason", "on_busy", "created_at"]
    search_fields = ["=id", "=session__id", "session__title", "workspace__name"]
    actions = ["retry"]

    @admin.action(description="Retry failed and dead runs", permissions=["act"])
    def retry(self, request: HttpRequest, runs: QuerySet[models.Run]) -> None:
        lost = runs.filter(status__in=[models.Run.Status.DEAD, models.Run.Status.FAILED])
        queued = act_on_each(lost, retry_run)
        self.message_user(request, f"Runs queued again: {queued}.")


@admin.register(models.ToolExecution)
class ToolExecutionAdmin(ReadOnlyAdmin):
    list_display = ["name", "state", "decision", "session", "attempts", "created_at", "finished_at"]
    list_filter = ["state", "decision", "ownership", "created_at"]
    search_fields = ["=id", "=session__id", "tool_use_id", "name", "error"]


@admin.register(models.ToolUseRollup)
class ToolUseRollupAdmin(ReadOnlyAdmin):
    list_display = ["day", "workspace", "name", "state", "decision", "calls", "ms"]
    list_filter = ["state", "decision", "day"]
    search_fields = ["=name", "workspace__name"]


@admin.register(models.Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    list_display = ["title", "status", "scope", "resolved_name", "created_at", "resolved_at"]
    list_filter = ["status", "subject", "scope", "created_at"]
    search_fields = ["=id", "=session__id", "title", "resolved_name"]


@admin.register(models.ContextSnapshot)
class ContextSnapshotAdmin(ReadOnlyAdmin):
    list_display = [
        "__str__",
        "session",
        "trigger",
        "model",
        "tokens_before",
        "tokens_after",
        "created_at",
        "undone_at",
    ]
    list_filter = ["trigger", ("undone_at", admin.EmptyFieldListFilter), "created_at"]
    search_fields = ["=id", "=session__id", "summary"]


@admin.register(models.ResourceAttachment)
class ResourceAttachmentAdmin(ReadOnlyAdmin):
    list_display = ["mount_path", "kind", "source_ref", "access", "session", "created_at"]
    list_filter = ["kind", "access", "created_at"]
    search_fields = ["=id", "=session__id", "mount_path", "source_ref"]


@admin.register(models.Draft)
class DraftAdmin(ReadOnlyAdmin):
    list_display = ["session", "run_id", "epoch", "start"]
    list_filter = ["session__status"]
    search_fields = ["=session__id", "=run_id", "=event_id"]

    @admin.display
    def start(self, draft: models.Draft) -> str:
        return Truncator(draft.text).chars(80)


@admin.register(models.SubagentSpawn)
class SubagentSpawnAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "workspace", "kind", "status", "depth", "delivered_at"]
    list_filter = ["kind", "status", "created_at"]
    search_fields = ["=id", "=parent_session__id", "=child_session__id"]


@admin.register(models.Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    list_display = ["name", "workspace", "agent", "kind", "next_at", "last_at", "paused_at"]
    list_filter = ["kind", "heartbeat", ("paused_at", admin.EmptyFieldListFilter)]
    search_fields = ["=id", "name", "workspace__name"]


@admin.register(models.Firing)
class FiringAdmin(ReadOnlyAdmin):
    list_display = ["due_at", "schedule", "workspace", "outcome", "missed", "note"]
    list_filter = ["outcome", "due_at"]
    search_fields = ["=id", "schedule__name"]


@admin.register(models.SavedView)
class SavedViewAdmin(ReadOnlyAdmin):
    list_display = ["name", "workspace", "person", "query", "is_shared", "created_at"]
    list_filter = ["is_shared", "created_at"]
    search_fields = ["=id", "name", "workspace__name", "person__email"]


@admin.register(models.MessageVector)
class MessageVectorAdmin(ReadOnlyAdmin):
    list_display = ["session", "seq", "position", "model", "workspace", "created_at"]
    list_filter = ["model"]
    search_fields = ["=id", "=session__id", "workspace__name"]
    exclude = ["vector"]


@admin.register(models.Feedback)
class FeedbackAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "workspace", "session", "seq", "person", "rating", "reason"]
    list_filter = ["rating", "created_at"]
    list_select_related = ["workspace", "session", "person"]
    search_fields = ["=id", "=session__id", "reason", "person__email"]


@admin.register(models.ToolOutput)
class ToolOutputAdmin(ReadOnlyAdmin):
    list_display = ["tool_use_id", "name", "session", "run_id", "epoch", "end"]
    list_filter = ["name"]
    search_fields = ["=tool_use_id", "=session__id", "=run_id"]

    @admin.display
    def end(self, output: models.ToolOutput) -> str:
        return output.text[-80:]
