"""What Home says of sessions: the questions that wait, and who was talked to last."""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse

from sessions_app.approvals import count_pending
from sessions_app.pages.approvals import asked
from sessions_app.pages.cards import recent_sessions
from sessions_app.pages.found import status_of
from tenants.access import Principal
from tenants.pages.overview import PARTS, SHOWN, Line, Part


def waiting(principal: Principal, workspace_id: UUID) -> Part | None:
    count = count_pending(workspace_id)
    if not count:
        return None
    url = reverse("approvals")
    # Whoever only reads is not the one who is asked.
    title = "Needs you" if principal.may("run") else "Waits for an answer"
    lines = [
        Line(
            title=one.title,
            url=f"{url}#asked-{one.approval.pk}",
            at=one.approval.created_at,
            lamp="is-waiting",
            status=title,
            note=str(one.approval.agent or "A workflow"),
        )
        for one in asked(principal, "pending")[:SHOWN]
    ]
    more = "Answer" if principal.may("run") else "Read"
    return Part(title=title, url=url, more=more, lines=lines, count=count, rank=1)


def talked(principal: Principal, workspace_id: UUID) -> Part | None:
    lines = []
    for session in recent_sessions(workspace_id):
        lamp, status = status_of(session)
        lines.append(
            Line(
                title=session.title or "New chat",
                url=reverse("chat_session", args=[session.pk]),
                at=session.active_at,
                lamp=lamp,
                status=status,
                note=str(session.agent),
            )
        )
    if not lines:
        return None
    return Part(title="Recent", url=reverse("sessions"), more="All sessions", lines=lines, rank=3)


PARTS.extend([waiting, talked])
