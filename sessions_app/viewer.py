"""One viewer of a log: replays from its cursor, then goes live, without a gap or a double.

Frames that were stored are checked by their seq. Whatever goes wrong on the live way, and when more
waits than a viewer may keep, it returns to the table and reads on from its cursor at its own pace.
"""

from __future__ import annotations

import asyncio
from collections import deque
from uuid import UUID

from django.db import Error

from config.faults import Fault, StreamUnavailable
from sessions_app.encoding import Frame
from sessions_app.watch import Watch
from tenants.access import Principal
from tenants.off_loop import read

#: What may wait for a viewer in memory.
MOST_WAITING_FRAMES = 500
MOST_WAITING_CHARACTERS = 8_000_000
#: Answers whose late deltas are recognised.
REMEMBERED_ANSWERS = 16


class Viewer:
    """Takes frames from its watch and gives them out in order, each once."""

    def __init__(self, watch: Watch, *, after: int, principal: Principal) -> None:
        self.watch = watch
        self.principal = principal
        self._cursor = after  # the last stored frame that was given out or waits to be
        self._live = False
        self._fault: Fault | None = None
        self._news = asyncio.Event()
        self._waiting: list[Frame] = []
        self._waiting_characters = 0
        self._answered: deque[UUID] = deque(maxlen=REMEMBERED_ANSWERS)

    async def next(self, seconds: float | None = None) -> list[Frame]:
        """The next frames. None of them when nothing comes for so many seconds."""
        while True:
            if self._fault:
                raise self._fault
            if self._waiting:
                frames, self._waiting, self._waiting_characters = self._waiting, [], 0
                return frames
            if not self._live:
                if frames := await self._replay():
                    return frames
                continue
            self._news.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return []

    def offer(self, frame: Frame) -> None:
        """Take a live frame. Those that the replay covers are left to it."""
        if not self._live or self._knows(frame):
            return
        if self._is_full() or (frame.seq is not None and frame.seq != self._cursor + 1):
            self._live = False  # what is left out here is read from the table
        else:
            self._pass(frame)
            self._waiting.append(frame)
            self._waiting_characters += len(frame.text)
        self._news.set()

    def drop(self, fault: Fault) -> None:
        """End this viewer; the fault says why."""
        self._fault = fault
        self._news.set()

    def _knows(self, frame: Frame) -> bool:
        if frame.seq is None:
            return frame.answer_id in self._answered
        return frame.seq <= self._cursor

    def _is_full(self) -> bool:
        return (
            len(self._waiting) >= MOST_WAITING_FRAMES
            or self._waiting_characters >= MOST_WAITING_CHARACTERS
        )

    def _pass(self, frame: Frame) -> None:
        """Move the cursor over a frame, if it is stored."""
        if frame.seq is not None:
            self._cursor = frame.seq
            if frame.answer_id:
                self._answered.append(frame.answer_id)

    async def _replay(self) -> list[Frame]:
        """Read the next page. The last one ends with the draft, and the viewer is live."""
        try:
            page = await read(self.watch.log.page, self._cursor)
            if not page.frames and self._cursor != self.watch.seen:
                await self._find_end()
        except Error as error:
            raise StreamUnavailable from error
        for frame in page.frames:
            self._pass(frame)
        self.watch.note(page.frames)
        # From here to the end nothing is awaited, so nothing can be handed out meanwhile.
        if not page.is_last or self._cursor < self.watch.seen:
            return page.frames
        self._live = True
        answer, running = self.watch.answer, []
        if answer and answer.text and answer.event_id not in self._answered:
            running.append(self.watch.log.delta(answer, 0))
        running += self.watch.outputs.frames()
        return [*page.frames, *running]

    async def _find_end(self) -> None:
        """A cursor beyond the end of the log would wait for ever: begin at the end instead."""
        state = await read(self.watch.log.state)
        self._cursor = min(self._cursor, state.last_seq)
