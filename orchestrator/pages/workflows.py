"""The list of workflows, filtered by status and name, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from orchestrator.engine.definition import definitions, description_of
from orchestrator.models import Workflow, WorkflowQuerySet
from orchestrator.pages.labels import STATUSES, duration, subject_of, subject_params
from orchestrator.pages.triggers import list_triggers
from sessions_app.pages.filters import Chip
from tenants.access import authorise
from tenants.authentication import principal_of

PAGE_SIZE = 50


@dataclass(frozen=True, kw_only=True)
class WorkflowFilter:
    """The filter in the URL of the list."""

    status: str = ""
    name: str = ""
    page: int = 1

    @classmethod
    def in_request(cls, request: HttpRequest) -> WorkflowFilter:
        query_params = request.GET
        status, page = query_params.get("status", ""), query_params.get("page", "1")
        return cls(
            status=status if status in STATUSES else "",
            name=query_params.get("name", "").replace("\0", "")[:100],
            page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 6 else 1,
        )

    def url(self, **changed: object) -> str:
        """Return the URL of the list with some values changed. It starts at the first page."""
        values = {"status": self.status, "name": self.name, "page": 1, **changed}
        query = {name: value for name, value in values.items() if value and value != 1}
        return f"?{urlencode(query)}"


@dataclass(frozen=True, kw_only=True)
class WorkflowRow:
    """One workflow in the table."""

    workflow: Workflow
    subject: str
    lamp: str
    status: str
    percent: float | None
    message: str
    took: str


def row_of(workflow: Workflow) -> WorkflowRow:
    lamp, word = STATUSES[workflow.status]
    progress = workflow.progress or {}
    ended = workflow.finished_at or timezone.now()
    message = "" if workflow.is_over else progress.get("message", "")
    if workflow.error:  # what a command query before it failed is on its own page
        message = workflow.error.get("message", "").partition("\n")[0]
    return WorkflowRow(
        workflow=workflow,
        subject=subject_of(workflow, workflow.told),  # type: ignore[attr-defined]
        lamp=lamp,
        status="Given up" if workflow.is_dead else word,
        percent=None if workflow.is_over else progress.get("percent"),
        message=message,
        took=duration(ended - workflow.started_at) if workflow.started_at else "",
    )


@require_safe
def workflows(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    filters = WorkflowFilter.in_request(request)
    start = max(0, filters.page - 1) * PAGE_SIZE
    rows = [
        row_of(one)
        for one in filtered_workflows(workspace_id, filters)[start : start + PAGE_SIZE + 1]
    ]
    context = {
        "rows": rows[:PAGE_SIZE],
        "statuses": status_chips(filters),
        "names": name_chips(filters),
        "definitions": [(made, description_of(made)) for made in definitions()],
        "is_narrowed": bool(filters.status or filters.name),
        "older": filters.url(page=filters.page + 1) if len(rows) > PAGE_SIZE else "",
        "newer": filters.url(page=filters.page - 1) if filters.page > 1 else "",
        "may_run": principal.may("run"),
        "may_build": principal.may("build"),
        "triggers": list_triggers(workspace_id),
    }
    return render(request, "pages/workflows/workflows.html", context)


def filtered_workflows(workspace_id: UUID, filters: WorkflowFilter) -> WorkflowQuerySet:
    rows = Workflow.objects.for_workspace(workspace_id)
    if filters.status:
        rows = rows.filter(status=filters.status)
    if filters.name:
        rows = rows.filter(name=filters.name)
    # Results and params may be large, and are not needed here.
    rows = rows.select_related("agent__current").annotate(told=subject_params())
    return rows.defer("result", "params").order_by("-created_at", "-pk")


def status_chips(filters: WorkflowFilter) -> list[Chip]:
    """Return a chip per status. A chip that is on clears its filter."""
    return [
        Chip(
            name=word,
            lamp=lamp,
            is_on=filters.status == value,
            url=filters.url(status="" if filters.status == value else value),
        )
        for value, (lamp, word) in STATUSES.items()
    ]


def name_chips(filters: WorkflowFilter) -> list[Chip]:
    return [
        Chip(
            name=made.name,
            is_on=filters.name == made.name,
            url=filters.url(name="" if filters.name == made.name else made.name),
        )
        for made in definitions()
    ]
