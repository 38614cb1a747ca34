"""The list of workflows: narrowed by status and name, the newest first."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from orchestrator.engine.definition import definitions, description_of
from orchestrator.models import Workflow
from orchestrator.models.workflow import WorkflowQuerySet
from orchestrator.pages.subject import about, subject_of
from orchestrator.pages.triggers import listed
from orchestrator.pages.words import STATUSES, span
from sessions_app.pages.chips import Chip
from tenants.access import authorise
from tenants.authentication import principal_of

PAGE = 50


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was asked for, as the address says it."""

    status: str = ""
    name: str = ""
    page: int = 1

    @classmethod
    def in_request(cls, request: HttpRequest) -> Wanted:
        asked = request.GET
        status, page = asked.get("status", ""), asked.get("page", "1")
        return cls(
            status=status if status in STATUSES else "",
            name=asked.get("name", "").replace("\0", "")[:100],
            page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 6 else 1,
        )

    def url(self, **changed: object) -> str:
        """The address of the same list with something else. Another choice begins at its top."""
        facts = {"status": self.status, "name": self.name, "page": 1, **changed}
        said = {name: value for name, value in facts.items() if value and value != 1}
        return f"?{urlencode(said)}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One workflow, as the table shows it."""

    workflow: Workflow
    subject: str
    lamp: str
    status: str
    percent: float | None
    message: str
    took: str


def row_of(workflow: Workflow) -> Row:
    lamp, word = STATUSES[workflow.status]
    progress = workflow.progress or {}
    ended = workflow.finished_at or timezone.now()
    message = "" if workflow.is_over else progress.get("message", "")
    if workflow.error:  # what a command said before it failed is on its own page
        message = workflow.error.get("message", "").partition("\n")[0]
    return Row(
        workflow=workflow,
        subject=subject_of(workflow, workflow.told),  # type: ignore[attr-defined]
        lamp=lamp,
        status="Given up" if workflow.is_dead else word,
        percent=None if workflow.is_over else progress.get("percent"),
        message=message,
        took=span(ended - workflow.started_at) if workflow.started_at else "",
    )


@require_safe
def workflows(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    wanted = Wanted.in_request(request)
    start = max(0, wanted.page - 1) * PAGE
    rows = [row_of(one) for one in found(workspace_id, wanted)[start : start + PAGE + 1]]
    context = {
        "rows": rows[:PAGE],
        "statuses": status_chips(wanted),
        "names": name_chips(wanted),
        "definitions": [(made, description_of(made)) for made in definitions()],
        "is_narrowed": bool(wanted.status or wanted.name),
        "older": wanted.url(page=wanted.page + 1) if len(rows) > PAGE else "",
        "newer": wanted.url(page=wanted.page - 1) if wanted.page > 1 else "",
        "may_run": principal.may("run"),
        "may_build": principal.may("build"),
        "triggers": listed(workspace_id),
    }
    return render(request, "pages/workflows/workflows.html", context)


def found(workspace_id: UUID, wanted: Wanted) -> WorkflowQuerySet:
    rows = Workflow.objects.for_workspace(workspace_id)
    if wanted.status:
        rows = rows.filter(status=wanted.status)
    if wanted.name:
        rows = rows.filter(name=wanted.name)
    # What a result or params may weigh is not needed here.
    rows = rows.select_related("agent__current").annotate(told=about())
    return rows.defer("result", "params").order_by("-created_at", "-pk")


def status_chips(wanted: Wanted) -> list[Chip]:
    """A chip that is on takes its choice back."""
    return [
        Chip(
            name=word,
            lamp=lamp,
            is_on=wanted.status == value,
            url=wanted.url(status="" if wanted.status == value else value),
        )
        for value, (lamp, word) in STATUSES.items()
    ]


def name_chips(wanted: Wanted) -> list[Chip]:
    return [
        Chip(
            name=made.name,
            is_on=wanted.name == made.name,
            url=wanted.url(name="" if wanted.name == made.name else made.name),
        )
        for made in definitions()
    ]
