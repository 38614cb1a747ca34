"""What Home says of workflows: those that go on, and those that ended last."""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse

from orchestrator.pages.listing import Wanted, found, row_of
from tenants.access import Principal
from tenants.pages.overview import PARTS, SHOWN, Line, Part


def went(principal: Principal, workspace_id: UUID) -> Part | None:
    lines = [
        Line(
            title=row.subject or row.workflow.name,
            url=reverse("workflow", args=[row.workflow.pk]),
            at=row.workflow.created_at,
            lamp=row.lamp,
            status=row.status,
            note=row.workflow.name if row.subject else "",
        )
        for row in map(row_of, found(workspace_id, Wanted())[:SHOWN])
    ]
    if not lines:
        return None
    return Part(
        title="Workflows", url=reverse("workflows"), more="All workflows", lines=lines, rank=4
    )


PARTS.append(went)
