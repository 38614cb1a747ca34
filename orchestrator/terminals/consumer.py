"""The WebSocket of a terminal: bytes out and in, sizes as JSON.

Binary frames are what the shell wrote and what a person types. Text frames are JSON: `resize` both
ways, `ready` first (its `replay` says how many bytes of the past follow), `closed` last, `ping` and
`pong`. It closes with 4000 + the status that HTTP would answer: 4401 no identity, 4403 no right or
no valid link, 4404 no such terminal, 4408 too slow, 4410 it is over, 4429 too many viewers, 4503
its host is away. After 4408 and 4503 connect again: what was missed is shown again.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from config.faults import Fault, SlowViewer, TerminalOver, TerminalsAway
from orchestrator.terminals.calling import Line, watching
from orchestrator.terminals.desk import Seat, keep_seat, take_seat
from orchestrator.terminals.records import machine
from tenants.off_loop import read
from tenants.pumped import SEND_SECONDS, PumpedConsumer

#: Rights are looked at again so often while nobody types, and before a key that comes later.
CHECK_SECONDS = 5.0
FRESH_SECONDS = 1.0
#: What may be typed or pasted in one frame.
MOST_TYPED = 256 * 1024


class Resize(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: Literal["resize"]
    cols: Annotated[int, Field(ge=2, le=500)]
    rows: Annotated[int, Field(ge=1, le=300)]


class TerminalConsumer(PumpedConsumer):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ready = asyncio.Event()
        self._seat: Seat | None = None
        self._line: Line | None = None
        self._checked = 0.0

    @property
    def terminal_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["terminal_id"]

    async def send_frames(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin1"))
        token = query.get("token", [""])[-1]
        seat = await read(take_seat, self.principal, self.terminal_id, token)
        self._seat, self._checked = seat, time.monotonic()
        async with watching(self.terminal_id, may_write=seat.may_write) as line:
            self._line = line
            checking = asyncio.create_task(self._check_often(line))
            try:
                await self._pass_on(line)
            finally:
                checking.cancel()

    async def _pass_on(self, line: Line) -> None:
        while True:
            try:
                said = await line.next()
            except TerminalOver:
                if self._seat and self._seat.terminal.host != machine():
                    raise TerminalsAway("Another machine holds this terminal.") from None
                raise
            self._ready.set()
            if isinstance(said, bytes):
                await self._send(bytes_data=said)
            else:
                await self._send(text_data=json.dumps(said))
                if said["type"] == "closed":
                    raise TerminalOver(said["reason"])

    async def _send(self, **frame: Any) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.send(**frame)
        except TimeoutError:
            raise SlowViewer from None

    async def _check_often(self, line: Line) -> None:
        """Cut off whoever lost the right to look while nothing is typed."""
        try:
            while True:
                await asyncio.sleep(CHECK_SECONDS)
                await self._check()
        except TerminalOver:
            return  # its host tells, with the last words of the shell
        except Fault as fault:
            await self.close_for(fault)
            line.hang_up()

    async def _check(self) -> None:
        if self._seat and time.monotonic() - self._checked > FRESH_SECONDS:
            self._seat = await read(keep_seat, self._seat)
            self._checked = time.monotonic()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            body = bytes_data if bytes_data is not None else self._read(text_data or "")
            if body == {"type": "ping"}:
                await self._send(text_data='{"type": "pong"}')
            elif body is not None:
                await self._type(body)
        except Fault as fault:
            await self.close_for(fault)
        except (ValidationError, ValueError):
            await self._complain("invalid", "Text frames are resize or ping.")

    def _read(self, text: str) -> dict[str, Any]:
        said = json.loads(text[:1000])
        if said == {"type": "ping"}:
            return {"type": "ping"}
        return Resize.model_validate(said).model_dump()

    async def _type(self, body: bytes | dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._ready.wait()
                await self._check()
                if not (self._seat and self._line and self._seat.may_write):
                    await self._complain("forbidden", "You can watch this terminal, not type.")
                elif len(body) > MOST_TYPED:
                    await self._complain("too_large", "That is too much to paste at once.")
                else:
                    await self._line.send(body)
        except TimeoutError:
            raise SlowViewer("The shell does not take what is typed.") from None

    async def _complain(self, code: str, words: str) -> None:
        await self._send(text_data=json.dumps({"type": "error", "code": code, "error": words}))
