"""The WebSocket of an inbox: how much is unread, said at once and whenever it changes.

It closes with 4000 + the status that HTTP would answer: 4401 no identity or one that was revoked, 4404
another workspace.
"""

from __future__ import annotations

from uuid import UUID

import orjson
from django.db import Error

from config.faults import NotFound, StreamUnavailable, Unauthenticated
from tenants.access import Principal, authorise
from tenants.group_ear import listening
from tenants.inbox import group_name, unread_count
from tenants.models import Membership
from tenants.off_loop import read
from tenants.pumped import PumpedConsumer
from tenants.rights import renewed

#: How often lost rings and lost rights are looked for.
LOOK_SECONDS = 10.0


class InboxConsumer(PumpedConsumer):
    """Joins the group first and counts then: what comes in between rings."""

    @property
    def workspace_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["workspace_id"]

    async def send_frames(self) -> None:
        if authorise(self.principal, "read") != self.workspace_id:
            raise NotFound
        async with listening(group_name(self.workspace_id)) as hear:
            said, rung = -1, False
            while True:
                unread = await self._count()
                if rung or unread != said:
                    said = unread
                    body = {"type": "inbox", "unread": unread}
                    await self.send_in_time(orjson.dumps(body).decode())
                rung = await hear(LOOK_SECONDS) is not None

    async def _count(self) -> int:
        try:
            return await read(unread_now, self.principal, self.workspace_id)
        except Error as error:
            raise StreamUnavailable from error


def unread_now(principal: Principal, workspace_id: UUID) -> int:
    """The count, for an identity that still holds."""
    person = renewed(principal).user
    members = Membership.objects.for_workspace(workspace_id).filter(user__is_active=True)
    if person is None or not members.filter(user=person).exists():
        raise Unauthenticated
    return unread_count(workspace_id, person.pk)
