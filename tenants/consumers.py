"""The WebSocket of an inbox: sends the number of unread items at once and after every change.

It closes with 4000 + the HTTP status: 4401 without a valid identity, 4404 for another workspace.
"""

from __future__ import annotations

from uuid import UUID

import orjson
from django.db import Error
from django.urls import URLPattern, path

from core.channel_layer import subscription
from core.db import read
from core.exceptions import NotFound, Unauthenticated
from sessions_app.exceptions import StreamUnavailable
from tenants.access import Principal, authorise, refresh_principal
from tenants.models import Membership
from tenants.notifications.inbox import inbox_group, unread_count
from tenants.sockets import PumpedConsumer

#: How often the count and the rights are checked even if no notification arrived.
POLL_SECONDS = 10.0


class InboxConsumer(PumpedConsumer):
    """Joins the group before it counts, so that a change in between is not missed."""

    @property
    def workspace_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["workspace_id"]

    async def send_frames(self) -> None:
        if authorise(self.principal, "read") != self.workspace_id:
            raise NotFound
        async with subscription(inbox_group(self.workspace_id)) as next_message:
            sent, notified = -1, False
            while True:
                unread = await self._count()
                if notified or unread != sent:
                    sent = unread
                    body = {"type": "inbox", "unread": unread}
                    await self.send_in_time(orjson.dumps(body).decode())
                notified = await next_message(POLL_SECONDS) is not None

    async def _count(self) -> int:
        try:
            return await read(count_unread, self.principal, self.workspace_id)
        except Error as error:
            raise StreamUnavailable from error


def count_unread(principal: Principal, workspace_id: UUID) -> int:
    """Count the unread items, or raise Unauthenticated if the user is no longer a member."""
    user = refresh_principal(principal).user
    members = Membership.objects.for_workspace(workspace_id).filter(user__is_active=True)
    if user is None or not members.filter(user=user).exists():
        raise Unauthenticated
    return unread_count(workspace_id, user.pk)


websocket_urlpatterns: list[URLPattern] = [
    path("ws/inbox/<uuid:workspace_id>/", InboxConsumer.as_asgi()),
]
