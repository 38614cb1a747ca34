"""Staff's read-only view of workflows with their steps and logs, triggers and terminals."""

from __future__ import annotations

from functools import partial

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import Truncator

from core.admin import ReadOnlyAdmin, act_on_each
from orchestrator import models
from orchestrator.engine.lifecycle import restart, terminate


@admin.register(models.Workflow)
class WorkflowAdmin(ReadOnlyAdmin):
    list_display = [
        "key",
        "name",
        "version",
        "status",
        "is_dead",
        "workspace",
        "recoveries",
        "created_at",
        "finished_at",
    ]
    list_filter = ["status", "is_dead", "name", "created_at"]
    search_fields = ["=id", "key", "name", "workspace__name"]
    actions = ["terminate_selected", "restart_failed"]

    @admin.action(description="Terminate", permissions=["act"])
    def terminate_selected(
        self, request: HttpRequest, workflows: QuerySet[models.Workflow]
    ) -> None:
        ended = act_on_each(workflows, partial(terminate, author_id=request.user.pk))
        self.message_user(request, f"{ended} terminated.")

    @admin.action(description="Restart those that failed", permissions=["act"])
    def restart_failed(self, request: HttpRequest, workflows: QuerySet[models.Workflow]) -> None:
        failed = workflows.filter(status=models.Workflow.Status.ERRORED)
        queued = act_on_each(failed, partial(restart, author_id=request.user.pk))
        self.message_user(request, f"{queued} queued again.")


@admin.register(models.Step)
class StepAdmin(ReadOnlyAdmin):
    list_display = ["name", "nth", "kind", "status", "attempts", "workflow", "started_at"]
    list_filter = ["kind", "status", "started_at"]
    search_fields = ["=id", "=workflow__id", "name"]


@admin.register(models.StepAttempt)
class StepAttemptAdmin(ReadOnlyAdmin):
    list_display = ["number", "status", "step", "started_at", "finished_at"]
    list_filter = ["status", "started_at"]
    search_fields = ["=step__id", "=step__workflow__id", "step__name"]


@admin.register(models.WorkflowSignal)
class WorkflowSignalAdmin(ReadOnlyAdmin):
    list_display = ["type", "seq", "taken_by", "workflow", "created_at"]
    list_filter = [("taken_by", admin.EmptyFieldListFilter), "created_at"]
    search_fields = ["=workflow__id", "type"]


@admin.register(models.WorkflowEvent)
class WorkflowEventAdmin(ReadOnlyAdmin):
    list_display = ["seq", "type", "summary", "workflow", "created_at"]
    list_filter = ["type", "created_at"]
    search_fields = ["=workflow__id", "payload__step"]
    ordering = ["-created_at", "-seq"]

    @admin.display
    def summary(self, event: models.WorkflowEvent) -> str:
        return Truncator(str(event.payload)).chars(80)


@admin.register(models.Terminal)
class TerminalAdmin(ReadOnlyAdmin):
    list_display = ["id", "status", "workspace", "created_by", "host", "opened_at", "closed_at"]
    list_filter = ["status", "created_at"]
    search_fields = ["=id", "=session__id", "workspace__name", "created_by__email"]
    exclude = ["share_hash"]


@admin.register(models.WorkflowTrigger)
class WorkflowTriggerAdmin(ReadOnlyAdmin):
    list_display = ["name", "kind", "workflow", "workspace", "next_at", "last_at", "paused_at"]
    list_filter = ["kind", "verify", ("paused_at", admin.EmptyFieldListFilter)]
    search_fields = ["=id", "name", "workflow", "workspace__name"]
    exclude = ["secret", "token"]


@admin.register(models.TriggerFiring)
class TriggerFiringAdmin(ReadOnlyAdmin):
    list_display = ["trigger", "outcome", "missed", "workflow_id", "note", "created_at"]
    list_filter = ["outcome", "created_at"]
    search_fields = ["=trigger__id", "=workflow_id", "trigger__name"]
