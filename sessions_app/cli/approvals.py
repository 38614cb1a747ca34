"""`agent approvals list`."""

from __future__ import annotations

from sessions_app.cli.desk import Desk
from sessions_app.models import Approval

MOST = 500


def list_asked(desk: Desk) -> None:
    """What people are asked, the oldest first: the call, its session and what it would do."""
    found = Approval.objects.for_workspace(desk.workspace_id).filter(status=desk.asked["status"])
    if desk.asked["session"]:
        found = found.filter(session_id=desk.asked["session"])
    for one in found.select_related("execution").order_by("created_at", "pk")[:MOST]:
        call = one.execution.tool_use_id if one.execution else str(one.subject_id)
        desk.say(
            f"{call}  {one.session_id or '-'}  {one.status}  {one.title}",
            id=one.pk,
            session_id=one.session_id,
            request=call,
            title=one.title,
            input=one.input,
            reason=one.reason,
            status=one.status,
            scope=one.scope,
            resolved_by=one.resolved_name,
            expires_at=one.expires_at,
        )
