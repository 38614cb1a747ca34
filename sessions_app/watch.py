"""Follows one log for all of its viewers in this process: each row is read and encoded once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog
from channels.layers import get_channel_layer
from django.db import Error

from config.faults import StreamUnavailable
from sessions_app.call_tails import CallTails
from sessions_app.encoding import Frame
from sessions_app.reader import Answer, CallTail, Log
from sessions_app.saying import Tail
from tenants.off_loop import read

if TYPE_CHECKING:
    from sessions_app.viewer import Viewer

log = structlog.get_logger(__name__)

JOIN_SECONDS = 10.0
#: Within this time all that a call has said is stored: see `outputs.STORE_SECONDS`.
CATCH_UP_SECONDS = 1.3


class Watch:
    """Joins the log's group first and reads then: what is written in between rings."""

    def __init__(self, followed: Log) -> None:
        self.log = followed
        self.viewers: set[Viewer] = set()
        self.seen = 0  #: The last seq that was handed to viewers, or was there before them.
        self.answer: Answer | None = None
        self.outputs = CallTails()
        self._layer = get_channel_layer()
        self._channel = ""
        self._busy = asyncio.Lock()
        self._opening = asyncio.create_task(self._open(), name=f"open {followed.group}")
        self._following: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None

    async def opened(self) -> None:
        # Several viewers may wait for it; one that leaves must not take it away from the others.
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        await self._join()
        try:
            state = await read(self.log.state)
        except Error as error:
            raise StreamUnavailable from error
        self.seen, self.answer = state.last_seq, state.answer
        self.outputs.begin(state.outputs)
        self._following = asyncio.create_task(self._follow(), name=f"follow {self.log.group}")
        self._following.add_done_callback(self._stopped)

    async def _join(self) -> None:
        """Have the log's group ring us. A layer that is away might keep us waiting for ever."""
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                self._channel = await self._layer.new_channel()
                await self._layer.group_add(self.log.group, self._channel)
        except Exception as error:
            raise StreamUnavailable from error

    async def close(self) -> None:
        if self._channel:
            await self._layer.group_discard(self.log.group, self._channel)
        for task in (self._opening, self._following, self._catching_up):
            if task:
                task.cancel()
                with suppress(asyncio.CancelledError, StreamUnavailable):
                    await task

    def _stopped(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            log.error("watch_failed", group=self.log.group, exc_info=task.exception())
            for viewer in self.viewers:
                viewer.drop(StreamUnavailable())

    async def _follow(self) -> None:
        while True:
            message = await self._layer.receive(self._channel)
            try:
                async with self._busy:
                    await self._take(message)
            except Error as error:
                # The next ring, the reconnected listener or the slow look makes up for it.
                log.warning("watch_behind", group=self.log.group, error=str(error).strip())

    async def _take(self, message: dict[str, Any]) -> None:
        if message.get("type") == "delta":
            await self._take_delta(message)
            return
        if message.get("type") == "output":
            self._take_output(message)
            return
        await self._read_log()
        if str(message.get("type")).startswith("layer."):  # deltas may have been lost as well
            self.outputs.doubt()
            await self._read_answer()

    async def look(self) -> None:
        """Read what a lost ring has left unread."""
        async with self._busy:
            await self._read_log()

    async def _read_log(self) -> None:
        while True:
            page = await read(self.log.page, self.seen)
            for frame in page.frames:
                self._close(frame)
                self._hand_out(frame)
                self.seen = frame.seq or self.seen
            if page.is_last:
                return

    def _close(self, frame: Frame) -> None:
        """Forget what a stored frame has replaced."""
        if frame.ends_answer:
            self.answer = None
        if frame.ends_turn:
            self.outputs.clear()
        elif frame.ends_call:
            self.outputs.end(frame.ends_call)

    def _take_output(self, message: dict[str, Any]) -> None:
        """Keep the newest of what a call says, and hand it on as it came."""
        piece = CallTail(
            session_id=UUID(message["session_id"]),
            run_id=message["run_id"] and UUID(message["run_id"]),
            tool_use_id=message["tool_use_id"],
            name=message["name"],
            tail=Tail(start=message["offset"], text=message["text"]),
        )
        if frame := self.outputs.take(piece):
            self._hand_out(frame)
        elif self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.create_task(self._catch_up(), name="catch up")

    async def _catch_up(self) -> None:
        """Find what a call said before its first piece that came here, once it is stored."""
        await asyncio.sleep(CATCH_UP_SECONDS)
        async with self._busy:
            try:
                rows = (await read(self.log.state)).outputs
            except Error:
                rows = {}
            for frame in self.outputs.catch_up(rows):
                self._hand_out(frame)

    async def _take_delta(self, message: dict[str, Any]) -> None:
        event_id, offset, text = UUID(message["event_id"]), message["offset"], message["text"]
        if self._lacks(event_id, offset):
            # Unknown until now, or something is missing: the draft knows, and is never behind.
            await self._read_answer()
        answer = self.answer
        if answer is None or answer.event_id != event_id or offset > len(answer.text):
            return  # its event is stored already, or a later delta will find the draft complete
        rest = answer.text[offset:]
        if rest.startswith(text):
            return
        start = len(answer.text) if text.startswith(rest) else offset
        self.answer = replace(answer, text=answer.text[:offset] + text)
        self._hand_out(self.log.delta(self.answer, start))

    def _lacks(self, event_id: UUID, offset: int) -> bool:
        answer = self.answer
        return answer is None or answer.event_id != event_id or offset > len(answer.text)

    async def _read_answer(self) -> None:
        known, found = self.answer, (await read(self.log.state)).answer
        same = known and found and known.event_id == found.event_id
        if known and found and same and known.text.startswith(found.text):
            return
        self.answer = found
        if found:
            start = len(known.text) if known and same and found.text.startswith(known.text) else 0
            self._hand_out(self.log.delta(found, start))

    def note(self, frames: list[Frame]) -> None:
        """Learn from what a viewer read by itself: a stored answer is no longer being written."""
        if self.answer and any(frame.answer_id == self.answer.event_id for frame in frames):
            self.answer = None

    def _hand_out(self, frame: Frame) -> None:
        for viewer in self.viewers:
            viewer.offer(frame)
