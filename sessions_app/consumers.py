"""The WebSocket of a session: frames out, `user.*` events in.

It closes with 4000 + the status that HTTP would answer: 4400 a bad cursor, 4401 no identity or one
that was revoked, 4403 no right to read, 4404 no such session, 4408 the client is too slow, 4429 too
many sockets, 4503 the log cannot be read just now. After 4408 and 4503 connect again with `after`.
The web server pings clients that are silent for 20 s, and cuts those that do not answer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer

from config.faults import Fault, SlowViewer, Unauthenticated
from sessions_app.doors import find_session
from sessions_app.encoding import encode
from sessions_app.hub import watching
from sessions_app.reader import SessionLog, cursor_in, read
from sessions_app.socket_commands import obey
from tenants.access import Principal
from tenants.socket_identity import SUBPROTOCOL

log = structlog.get_logger(__name__)

CLOSE_CODES = 4000  #: Added to the status of a fault.
INTERNAL_ERROR = 1011
#: A client that takes longer for one frame is too slow.
SEND_SECONDS = 20.0


class SessionConsumer(AsyncWebsocketConsumer):
    """Sends every stored event after a cursor in order, once, then what is new."""

    # The hub listens to the channel layer, once for all viewers of a session.
    channel_layer_alias = "unused"

    pumping: asyncio.Task[None] | None = None

    @property
    def principal(self) -> Principal:
        return self.scope["principal"]

    @property
    def session_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["session_id"]

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
        # A close code that is sent before accepting reaches a browser only as 1006.
        offered = self.scope.get("subprotocols", [])
        await self.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        self.pumping = asyncio.create_task(self._pump(), name=f"pump {self.session_id}")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            answer = await obey(self.principal, self.session_id, text_data)
        except Unauthenticated as fault:
            await self.close(code=CLOSE_CODES + fault.status)
        else:
            await self.send(text_data=encode(answer))

    async def _pump(self) -> None:
        try:
            await self._send_frames()
        except Fault as fault:
            await self.close(code=CLOSE_CODES + fault.status)
        except Exception:
            log.exception("socket_failed", session_id=str(self.session_id))
            await self.close(code=INTERNAL_ERROR)

    async def _send_frames(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin1"))
        after = cursor_in(query.get("after", ["0"])[-1])
        await read(find_session, self.principal, self.session_id)
        followed = SessionLog(session_id=self.session_id)
        async with watching(followed, after=after, principal=self.principal) as viewer:
            while True:
                for frame in await viewer.next():
                    await self._send_in_time(frame.text)

    async def _send_in_time(self, text: str) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.send(text_data=text)
        except TimeoutError:
            raise SlowViewer from None
