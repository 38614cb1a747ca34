"""Staff's read-only view of workflows with their steps and logs, triggers and terminals."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import Truncator

from core.admin import ReadOnlyAdmin
from core.exceptions import Conflict
from orchestrator.engine.lifecycle import restart, terminate
from orchestrator.models import (
    Step,
    StepAttempt,
    Terminal,
    TriggerFiring,
    Workflow,
    WorkflowEvent,
    WorkflowSignal,
    WorkflowTrigger,
)


@admin.register(Workflow)
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
    list_select_related = ["workspace"]
    search_fields = ["=id", "key", "name", "workspace__name"]
    actions = ["terminate_selected", "restart_failed"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workflow]:
        related = ["workspace", "agent__current", "parent", "created_by"]
        return super().get_queryset(request).select_related(*related)

    @admin.action(description="Terminate", permissions=["act"])
    def terminate_selected(self, request: HttpRequest, workflows: QuerySet[Workflow]) -> None:
        ended = 0
        for workflow in workflows:
            try:
                terminate(workflow, author_id=request.user.pk)
            except Conflict:
                continue
            ended += 1
        self.message_user(request, f"{ended} terminated.")

    @admin.action(description="Restart those that failed", permissions=["act"])
    def restart_failed(self, request: HttpRequest, workflows: QuerySet[Workflow]) -> None:
        failed = list(workflows.filter(status=Workflow.Status.ERRORED))
        for workflow in failed:
            restart(workflow, author_id=request.user.pk)
        self.message_user(request, f"{len(failed)} queued again.")


@admin.register(Step)
class StepAdmin(ReadOnlyAdmin):
    list_display = ["name", "nth", "kind", "status", "attempts", "workflow", "started_at"]
    list_filter = ["kind", "status", "started_at"]
    list_select_related = ["workflow"]
    search_fields = ["=id", "=workflow__id", "name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Step]:
        return super().get_queryset(request).select_related("workflow")


@admin.register(StepAttempt)
class StepAttemptAdmin(ReadOnlyAdmin):
    list_display = ["number", "status", "step", "started_at", "finished_at"]
    list_filter = ["status", "started_at"]
    list_select_related = ["step"]
    search_fields = ["=step__id", "=step__workflow__id", "step__name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[StepAttempt]:
        return super().get_queryset(request).select_related("step")


@admin.register(WorkflowSignal)
class WorkflowSignalAdmin(ReadOnlyAdmin):
    list_display = ["type", "seq", "taken_by", "workflow", "created_at"]
    list_filter = [("taken_by", admin.EmptyFieldListFilter), "created_at"]
    list_select_related = ["workflow"]
    search_fields = ["=workflow__id", "type"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkflowSignal]:
        return super().get_queryset(request).select_related("workflow", "created_by")


@admin.register(WorkflowEvent)
class WorkflowEventAdmin(ReadOnlyAdmin):
    list_display = ["seq", "type", "summary", "workflow", "created_at"]
    list_filter = ["type", "created_at"]
    list_select_related = ["workflow"]
    search_fields = ["=workflow__id", "payload__step"]
    ordering = ["-created_at", "-seq"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkflowEvent]:
        return super().get_queryset(request).select_related("workflow")

    @admin.display
    def summary(self, event: WorkflowEvent) -> str:
        return Truncator(str(event.payload)).chars(80)


@admin.register(Terminal)
class TerminalAdmin(ReadOnlyAdmin):
    list_display = ["id", "status", "workspace", "created_by", "host", "opened_at", "closed_at"]
    list_filter = ["status", "created_at"]
    list_select_related = ["workspace", "created_by"]
    search_fields = ["=id", "=session__id", "workspace__name", "created_by__email"]
    exclude = ["share_hash"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Terminal]:
        related = ["workspace", "session", "workflow", "created_by", "closed_by"]
        return super().get_queryset(request).select_related(*related)


@admin.register(WorkflowTrigger)
class WorkflowTriggerAdmin(ReadOnlyAdmin):
    list_display = ["name", "kind", "workflow", "workspace", "next_at", "last_at", "paused_at"]
    list_filter = ["kind", "verify", ("paused_at", admin.EmptyFieldListFilter)]
    list_select_related = ["workspace"]
    search_fields = ["=id", "name", "workflow", "workspace__name"]
    exclude = ["secret", "token"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkflowTrigger]:
        related = ["workspace", "agent__current", "created_by"]
        return super().get_queryset(request).select_related(*related)


@admin.register(TriggerFiring)
class TriggerFiringAdmin(ReadOnlyAdmin):
    list_display = ["trigger", "outcome", "missed", "workflow_id", "note", "created_at"]
    list_filter = ["outcome", "created_at"]
    list_select_related = ["trigger"]
    search_fields = ["=trigger__id", "=workflow_id", "trigger__name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[TriggerFiring]:
        related = ["workspace", "trigger", "created_by"]
        return super().get_queryset(request).select_related(*related)
