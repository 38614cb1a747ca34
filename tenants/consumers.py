"""The WebSocket of an inbox: how much is unread, said at once and whenever it changes.

It closes with 4000 + the status that HTTP would answer: 4401 no identity or one that was revoked, 4404
another workspace.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from config.faults import Fault, NotFound, Unauthenticated
from tenants.access import Principal, authorise
from tenants.inbox import group_name, unread_count
from tenants.models import ApiKey, Membership
from tenants.socket_identity import SUBPROTOCOL

CLOSE_CODES = 4000


class InboxConsumer(AsyncWebsocketConsumer):
    @property
    def principal(self) -> Principal:
        return self.scope["principal"]

    @property
    def workspace_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["workspace_id"]

    async def connect(self) -> None:
        # A close code that is sent before accepting reaches a browser only as 1006.
        offered = self.scope.get("subprotocols", [])
        await self.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        try:
            self._check()
        except Fault as fault:
            await self.close(code=CLOSE_CODES + fault.status)
            return
        # Joined before the first count: what comes in between rings.
        await self.channel_layer.group_add(group_name(self.workspace_id), self.channel_name)
        await self.inbox_changed({})

    def _check(self) -> None:
        if authorise(self.principal, "read") != self.workspace_id:
            raise NotFound

    async def disconnect(self, code: int) -> None:
        await self.channel_layer.group_discard(group_name(self.workspace_id), self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Whatever a client says, it only asks whether somebody is there."""
        await self.send(text_data='{"type":"pong"}')

    async def inbox_changed(self, message: dict[str, Any]) -> None:
        try:
            unread = await database_sync_to_async(unread_now)(self.principal, self.workspace_id)
        except Fault as fault:
            await self.close(code=CLOSE_CODES + fault.status)
            return
        await self.send(text_data=orjson.dumps({"type": "inbox", "unread": unread}).decode())

    async def layer_reconnected(self, message: dict[str, Any]) -> None:
        await self.inbox_changed(message)

    async def layer_overflowed(self, message: dict[str, Any]) -> None:
        await self.inbox_changed(message)


def unread_now(principal: Principal, workspace_id: UUID) -> int:
    """The count, for an identity that still holds."""
    if principal.key and not ApiKey.objects.valid().filter(pk=principal.key.pk).exists():
        raise Unauthenticated
    members = Membership.objects.for_workspace(workspace_id).filter(user__is_active=True)
    person = principal.user
    if person is None or not members.filter(user=person).exists():
        raise Unauthenticated
    return unread_count(workspace_id, person.pk)
