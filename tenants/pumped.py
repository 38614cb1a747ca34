"""A WebSocket whose frames are pumped by a task of its own, and end with what a fault says."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer

from config.faults import Fault, SlowViewer
from tenants.access import Principal
from tenants.socket_identity import SUBPROTOCOL

log = structlog.get_logger(__name__)

CLOSE_CODES = 4000  #: Added to the status of a fault.
INTERNAL_ERROR = 1011
#: Bytes of the reason that a close frame has room for.
LONGEST_REASON = 123
#: A client that takes longer for one frame is too slow.
SEND_SECONDS = 20.0


class PumpedConsumer(AsyncWebsocketConsumer):
    # Consumers listen to the channel layer by themselves, or share one ear per process.
    channel_layer_alias = "unused"

    pumping: asyncio.Task[None] | None = None

    @property
    def principal(self) -> Principal:
        return self.scope["principal"]

    async def send_frames(self) -> None:
        """Send for as long as the connection lasts."""
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
        # A close code that is sent before accepting reaches a browser only as 1006.
        offered = self.scope.get("subprotocols", [])
        await self.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        self.pumping = asyncio.create_task(self._pump(), name=f"pump {self.scope['path']}")

    async def _pump(self) -> None:
        try:
            await self.send_frames()
        except Fault as fault:
            await self.close_for(fault)
        except Exception:
            log.exception("socket_failed", path=self.scope["path"])
            await self.close(code=INTERNAL_ERROR, reason=Fault().detail)

    async def close_for(self, fault: Fault) -> None:
        """End with 4000 + the status that HTTP would answer, and why."""
        reason = fault.detail.encode()[:LONGEST_REASON].decode(errors="ignore")
        await self.close(code=CLOSE_CODES + fault.status, reason=reason)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Whatever a client says, it only asks whether somebody is there."""
        await self.send(text_data='{"type":"pong"}')

    async def send_in_time(self, text: str) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.send(text_data=text)
        except TimeoutError:
            raise SlowViewer from None
