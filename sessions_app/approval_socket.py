"""The WebSocket of a workspace's approvals: how many wait, and each one as it changes.

The first frame and every other one is `{"type": "approvals", "pending": N, "approval": {…} or null}`.
It closes with 4000 + the status that HTTP would answer: 4401 no identity or one that was revoked,
4403 no right to read. Answers go over REST. `{"type": "ping"}` is answered by `pong`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import Error

from config.faults import StreamUnavailable
from sessions_app.api.approval_shapes import ApprovalSerializer
from sessions_app.api.approvals import RELATED
from sessions_app.approval_bell import group_name
from sessions_app.approvals import count_pending
from sessions_app.encoding import encode
from sessions_app.frames import Body
from sessions_app.models import Approval
from tenants.access import Principal, authorise
from tenants.group_ear import listening
from tenants.off_loop import read
from tenants.pumped import PumpedConsumer
from tenants.rights import renewed

#: How often lost rings and lost rights are looked for.
LOOK_SECONDS = 10.0


class ApprovalConsumer(PumpedConsumer):
    """Joins the group first and reads then: what is written in between rings."""

    async def send_frames(self) -> None:
        workspace_id = authorise(self.principal, "read")
        async with listening(group_name(workspace_id)) as hear:
            pending = await self._tell(None)
            while True:
                message = await hear(LOOK_SECONDS)
                if message is not None:
                    pending = await self._tell(_id_in(message))
                elif await read(_still_pending, self.principal) != pending:
                    pending = await self._tell(None)

    async def _tell(self, changed: UUID | None) -> int:
        try:
            body = await read(describe_change, self.principal, changed)
        except Error as error:
            raise StreamUnavailable from error
        await self.send_in_time(encode(body))
        return int(body["pending"])


def _id_in(message: dict[str, Any]) -> UUID | None:
    """The approval that a ring names; none when rings were lost."""
    return UUID(message["id"]) if message.get("id") else None


def describe_change(principal: Principal, changed: UUID | None) -> Body:
    workspace_id = authorise(principal, "read")
    found = None
    if changed:
        rows = Approval.objects.for_workspace(workspace_id).select_related(*RELATED)
        found = rows.filter(pk=changed).first()
    context = {"may_run": principal.may("run")}
    return {
        "type": "approvals",
        "pending": count_pending(workspace_id),
        "approval": ApprovalSerializer(found, context=context).data if found else None,
    }


def _still_pending(principal: Principal) -> int:
    """The count, if this identity may still see it."""
    return count_pending(authorise(renewed(principal), "read"))
