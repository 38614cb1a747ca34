"""The WebSockets of an agent: each says that its canvas or its draft has a new revision.

The same rules as for sessions: it closes with 4000 + the status that HTTP would answer, revisions
after `?after=` are replayed in order, and whoever loses the right to read is cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qs
from uuid import UUID

import orjson
import structlog
from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.layers import get_channel_layer
from django.db import Error, connection

from agents.models import Agent
from config.faults import Fault, Invalid, NotFound, SlowViewer, StreamUnavailable
from tenants.access import Principal, authorise
from tenants.rights import renewed
from tenants.socket_identity import SUBPROTOCOL

log = structlog.get_logger(__name__)
T = TypeVar("T")

CLOSE_CODES = 4000  #: Added to the status of a fault.
INTERNAL_ERROR = 1011
SEND_SECONDS = 20.0
#: How often lost rings and lost rights are looked for.
LOOK_SECONDS = 10.0


class AgentConsumer(AsyncWebsocketConsumer):
    """Sends one frame per revision of something that an agent has; what it is, is read over REST."""

    # The pump listens to the channel layer on a channel of its own.
    channel_layer_alias = "unused"

    pumping: asyncio.Task[None] | None = None

    @property
    def principal(self) -> Principal:
        return self.scope["principal"]

    @property
    def agent_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["agent_id"]

    @property
    def group(self) -> str:
        """Whose rings it hears."""
        raise NotImplementedError

    async def send_news(self, cursor: int, known: int) -> tuple[int, int]:
        """Send what is after the cursor, and what else is not known yet."""
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Live as long as the connection, and leave nothing behind however it ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self.pumping:
                self.pumping.cancel()
                with suppress(asyncio.CancelledError):
                    await self.pumping

    async def connect(self) -> None:
        offered = self.scope.get("subprotocols", [])
        await self.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        self.pumping = asyncio.create_task(self._pump(), name=self.group)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is said here by clients; a ping is answered."""
        await self.send(text_data='{"type":"pong"}')

    async def _pump(self) -> None:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        try:
            # Joined before reading: what is saved in between rings.
            await layer.group_add(self.group, channel)
            await self._follow(layer, channel)
        except Fault as fault:
            await self.close(code=CLOSE_CODES + fault.status)
        except Exception:
            log.exception("agent_socket_failed", group=self.group)
            await self.close(code=INTERNAL_ERROR)
        finally:
            await layer.group_discard(self.group, channel)

    async def _follow(self, layer: Any, channel: str) -> None:
        await read_rows(self._find)
        cursor, known = self._after(), -1
        while True:
            cursor, known = await self.send_news(cursor, known)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await layer.receive(channel)
            await read_rows(self._find)

    def _find(self) -> None:
        """Raise unless this identity may, by now, read this agent."""
        workspace_id = authorise(renewed(authorised(self.principal)), "read")
        if not Agent.objects.for_workspace(workspace_id).filter(pk=self.agent_id).exists():
            raise NotFound

    def _after(self) -> int:
        query = parse_qs(self.scope["query_string"].decode("latin1"))
        text = query.get("after", ["0"])[-1]
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise Invalid("`after` is the number of a revision.")
        return int(text)

    async def send_in_time(self, body: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.send(text_data=orjson.dumps(body).decode())
        except TimeoutError:
            raise SlowViewer from None


def authorised(principal: Principal) -> Principal:
    """The identity, if there is one that may read at all."""
    authorise(principal, "read")
    return principal


async def read_rows(function: Callable[[], T]) -> T:
    """Run synchronous code on a thread of the loop's pool; its connection goes back at once."""

    def call() -> T:
        try:
            return function()
        except Error as error:
            raise StreamUnavailable from error
        finally:
            connection.close()

    return await sync_to_async(call, thread_sensitive=False)()
