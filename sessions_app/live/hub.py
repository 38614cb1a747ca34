"""Shares one reader of a log among all of its viewers in this process.

A `LogFeed` joins the log's channel group, reads new rows once and hands each encoded frame to every
`Viewer`. A viewer delivers its frames in order, each once. The `Hub` holds one feed per log.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog
from channels.layers import get_channel_layer
from django.db import Error

from core.db import read
from core.exceptions import Fault, TooManyRequests, Unauthenticated
from sessions_app.exceptions import StreamUnavailable
from sessions_app.live.frames import QUEUE_MOVED, Frame, join_deltas
from sessions_app.live.output_buffer import OutputWindow
from sessions_app.live.reader import Log, PartialAnswer, RunningOutput
from tenants.access import ANONYMOUS, Principal, find_revoked

log = structlog.get_logger(__name__)

#: Writes a frame to a viewer's connection at once, or returns False while the connection is busy.
WriteNow: TypeAlias = Callable[[Frame], bool]

#: How often the hub looks for lost notifications and revoked permissions.
POLL_SECONDS = 10.0
#: The same for a log that Python code follows, which no hub polls.
FOLLOW_SECONDS = 5.0
#: Viewers that one workspace may have in one process.
MAX_VIEWERS = 2_000
#: What may wait for one viewer in memory.
MAX_WAITING_FRAMES = 500
MAX_WAITING_CHARACTERS = 8_000_000
#: Stored answers that a viewer remembers, to ignore their late deltas.
REMEMBERED_ANSWERS = 16
JOIN_SECONDS = 10.0
#: After this time a call's output is stored: longer than `output_buffer.STORE_SECONDS`.
CATCH_UP_SECONDS = 1.3


class Hub:
    def __init__(self) -> None:
        self.feeds: dict[str, LogFeed] = {}
        self._polling: asyncio.Task[None] | None = None

    def join(
        self, followed: Log, *, after: int, principal: Principal, write_now: WriteNow | None = None
    ) -> Viewer:
        if self._count_viewers(principal) >= MAX_VIEWERS:
            raise TooManyRequests(retry_after=POLL_SECONDS)
        feed = self.feeds.get(followed.group)
        if feed is None:
            feed = self.feeds[followed.group] = LogFeed(followed)
        viewer = Viewer(feed, after=after, principal=principal, write_now=write_now)
        feed.viewers.add(viewer)
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll_while_viewed(), name="hub poll")
        return viewer

    async def leave(self, viewer: Viewer) -> None:
        feed = viewer.feed
        feed.viewers.discard(viewer)
        if not feed.viewers:
            if self.feeds.get(feed.log.group) is feed:
                del self.feeds[feed.log.group]
            await feed.close()

    async def poll(self) -> None:
        """Catch up where a notification was lost, and end viewers whose permission was revoked."""
        kinds: dict[type[Log], list[LogFeed]] = defaultdict(list)
        for feed in self.feeds.values():
            kinds[type(feed.log)].append(feed)
        for kind, feeds in kinds.items():
            last_seqs = await read(kind.last_seqs, [feed.log for feed in feeds])
            for feed in feeds:
                if last_seqs.get(feed.log.group, 0) > feed.last_seq:
                    await feed.poll()
        lost = await read(find_revoked, {viewer.principal for viewer in self._viewers()})
        for viewer in self._viewers():
            if viewer.principal in lost:
                viewer.drop(Unauthenticated())

    async def _poll_while_viewed(self) -> None:
        while self.feeds:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.poll()
            except Error as error:
                log.warning("hub_poll_failed", error=str(error).strip())

    def _viewers(self) -> list[Viewer]:
        return [viewer for feed in self.feeds.values() for viewer in feed.viewers]

    def _count_viewers(self, principal: Principal) -> int:
        return sum(v.principal.workspace_id == principal.workspace_id for v in self._viewers())


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of this event loop. A process has one loop, so one hub."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


@asynccontextmanager
async def open_viewer(
    followed: Log, *, after: int, principal: Principal, write_now: WriteNow | None = None
) -> AsyncIterator[Viewer]:
    """Yield a viewer of this log that begins after a seq, and remove it after the block."""
    current = hub()
    viewer = current.join(followed, after=after, principal=principal, write_now=write_now)
    try:
        await viewer.feed.wait_until_open()
        yield viewer
    finally:
        await current.leave(viewer)


class LogFeed:
    """Follows one log and broadcasts its frames to the viewers of this process.

    It joins the log's group before it reads: a row written in between sends a notification.
    """

    def __init__(self, followed: Log) -> None:
        self.log = followed
        self.viewers: set[Viewer] = set()
        self.last_seq = 0  #: The last seq that was broadcast, or was stored before the feed opened.
        self.answer: PartialAnswer | None = None
        self.outputs = OutputTracker()
        self._layer = get_channel_layer()
        self._channel = ""
        self._lock = asyncio.Lock()
        self._unsent_from: int | None = (
            None  #: Where the answer's text begins that is not sent yet.
        )
        self._opening = asyncio.create_task(self._open(), name=f"open {followed.group}")
        self._following: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None

    async def wait_until_open(self) -> None:
        # Several viewers may wait here. The shield keeps one that leaves from cancelling the rest.
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        await self._join_group()
        try:
            state = await read(self.log.state)
        except Error as error:
            raise StreamUnavailable from error
        self.last_seq, self.answer = state.last_seq, state.answer
        self.outputs.start(state.outputs)
        self._following = asyncio.create_task(self._follow(), name=f"follow {self.log.group}")
        self._following.add_done_callback(self._on_stopped)

    async def _join_group(self) -> None:
        try:
            # A channel layer that is unreachable might block forever.
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

    def _on_stopped(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            log.error("feed_failed", group=self.log.group, exc_info=task.exception())
            for viewer in self.viewers:
                viewer.drop(StreamUnavailable())

    async def _follow(self) -> None:
        while True:
            message = await self._layer.receive(self._channel)
            try:
                async with self._lock:
                    await self._on_message(message)
            except Error as error:
                # The next notification, the reconnected listener or the hub's poll makes up for it.
                log.warning("feed_behind", group=self.log.group, error=str(error).strip())

    async def _on_message(self, message: dict[str, Any]) -> None:
        if message.get("type") == "delta":
            await self._on_delta(message)
            return
        if message.get("type") == "output":
            self._on_output(message)
            return
        if message.get("type") == "queue.moved":
            self._broadcast(QUEUE_MOVED)
            return
        await self._read_rows()
        if str(message.get("type")).startswith("layer."):
            # The listener was away, so deltas may be lost as well.
            self.outputs.expect_gaps()
            await self._read_answer()

    async def poll(self) -> None:
        """Read the rows whose notification was lost."""
        async with self._lock:
            await self._read_rows()

    async def _read_rows(self) -> None:
        while True:
            page = await read(self.log.page, self.last_seq)
            for frame in page.frames:
                self._broadcast(frame)
                self._forget_replaced(frame)
                self.last_seq = frame.seq or self.last_seq
            if page.is_last:
                return

    def _forget_replaced(self, frame: Frame) -> None:
        """Forget the live text that this stored frame replaces."""
        if frame.ends_answer:
            self.answer = None
        if frame.ends_turn:
            self.outputs.clear()
        elif frame.ends_call:
            self.outputs.remove(frame.ends_call)

    def _on_output(self, message: dict[str, Any]) -> None:
        chunk = RunningOutput(
            session_id=UUID(message["session_id"]),
            run_id=message["run_id"] and UUID(message["run_id"]),
            tool_use_id=message["tool_use_id"],
            name=message["name"],
            window=OutputWindow(start=message["offset"], text=message["text"]),
        )
        if frame := self.outputs.add(chunk):
            self._broadcast(frame)
        elif self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.create_task(self._catch_up(), name="catch up")

    async def _catch_up(self) -> None:
        """Read the output that came before the first chunk this feed received, once it is stored."""
        await asyncio.sleep(CATCH_UP_SECONDS)
        async with self._lock:
            try:
                stored = (await read(self.log.state)).outputs
            except Error:
                stored = {}
            for frame in self.outputs.catch_up(stored):
                self._broadcast(frame)

    async def _on_delta(self, message: dict[str, Any]) -> None:
        event_id, offset, text = UUID(message["event_id"]), message["offset"], message["text"]
        if self._lacks_text_before(event_id, offset):
            # The answer is new here, or a delta was lost. The draft is stored before its deltas.
            await self._read_answer()
        answer = self.answer
        if answer is None or answer.event_id != event_id or offset > len(answer.text):
            return  # The event is stored already, or a later delta will find the complete draft.
        rest = answer.text[offset:]
        if rest.startswith(text):
            return
        start = len(answer.text) if text.startswith(rest) else offset
        self.answer = replace(answer, text=answer.text[:offset] + text)
        self._send_answer_from(start)

    def _send_answer_from(self, start: int) -> None:
        """Broadcast the answer's text soon, in one frame with the deltas that also wait by then.

        If sending to all viewers takes longer than deltas take to arrive, frames become larger
        instead of later.
        """
        if self._unsent_from is None:
            self._unsent_from = start
            asyncio.get_running_loop().call_soon(self.send_answer)
        self._unsent_from = min(self._unsent_from, start)

    def send_answer(self) -> None:
        """Broadcast the answer's text that is not sent yet. It must precede any other frame."""
        start, self._unsent_from = self._unsent_from, None
        if start is not None and self.answer:
            self._offer(self.log.delta(self.answer, start))

    def _lacks_text_before(self, event_id: UUID, offset: int) -> bool:
        answer = self.answer
        return answer is None or answer.event_id != event_id or offset > len(answer.text)

    async def _read_answer(self) -> None:
        self.send_answer()
        known, stored = self.answer, (await read(self.log.state)).answer
        is_same = known and stored and known.event_id == stored.event_id
        if known and stored and is_same and known.text.startswith(stored.text):
            return
        self.answer = stored
        if stored:
            is_longer = known and is_same and stored.text.startswith(known.text)
            start = len(known.text) if known and is_longer else 0
            self._broadcast(self.log.delta(stored, start))

    def forget_stored_answer(self, frames: list[Frame]) -> None:
        """Forget the partial answer if one of these frames, which a viewer read, stores it."""
        if self.answer and any(frame.answer_id == self.answer.event_id for frame in frames):
            self.answer = None

    def _broadcast(self, frame: Frame) -> None:
        self.send_answer()
        self._offer(frame)

    def _offer(self, frame: Frame) -> None:
        for viewer in self.viewers:
            viewer.offer(frame)


async def follow_log(followed: Log, *, after: int) -> AsyncGenerator[list[Frame]]:
    """Yield the frames after this seq, without end; an empty list when nothing came for a while.

    It is for Python code, on any event loop. The caller has checked that the reader may see the
    log. It is not checked again.
    """
    feed = LogFeed(followed)
    viewer = Viewer(feed, after=after, principal=ANONYMOUS)
    feed.viewers.add(viewer)
    try:
        await feed.wait_until_open()
        while True:
            frames = await viewer.next(FOLLOW_SECONDS)
            if not frames:
                await feed.poll()
            yield frames
    finally:
        await feed.close()


class OutputTracker:
    """Keeps the newest output of each running call and closes gaps before a chunk is shown."""

    def __init__(self) -> None:
        self._known: dict[str, RunningOutput] = {}
        self._waiting: dict[str, RunningOutput] = {}  #: Chunks after a gap.
        self._gapless: set[str] = set()  #: Calls of which no chunk was missed since their row.

    def start(self, stored: Mapping[str, RunningOutput]) -> None:
        self._known = dict(stored)

    def frames(self) -> Iterator[Frame]:
        """Return the frames that a viewer who joins now needs."""
        return (output.frame() for output in self._known.values())

    def add(self, chunk: RunningOutput) -> Frame | None:
        """Return the frame of a live chunk, or None if text before it is missing and it waits."""
        call = chunk.tool_use_id
        if call in self._waiting:
            self._waiting[call] = _append(self._waiting[call].window, chunk)
            return None
        known = self._known[call].window if call in self._known else OutputWindow()
        if call not in self._gapless and not known.start <= chunk.window.start <= known.end:
            self._waiting[call] = chunk
            return None
        self._gapless.add(call)
        self._known[call] = _append(known, chunk)
        return chunk.frame()

    def catch_up(self, stored: Mapping[str, RunningOutput]) -> list[Frame]:
        """Close gaps with the stored rows and return the frames that waited."""
        waiting, self._waiting = self._waiting, {}
        return [self._close_gap(chunk, stored.get(call)) for call, chunk in waiting.items()]

    def _close_gap(self, chunk: RunningOutput, stored: RunningOutput | None) -> Frame:
        call = chunk.tool_use_id
        sent = self._known[call].window if call in self._known else OutputWindow()
        whole = _append(stored.window if stored else sent, chunk)
        self._known[call] = whole
        self._gapless.add(call)
        return whole.frame_from(max(sent.end, whole.window.start))

    def expect_gaps(self) -> None:
        """Check the next chunk of every call for a gap, because messages may have been lost."""
        self._gapless.clear()

    def remove(self, call: str) -> None:
        self._known.pop(call, None)
        self._waiting.pop(call, None)
        self._gapless.discard(call)

    def clear(self) -> None:
        for call in [*self._known, *self._waiting]:
            self.remove(call)


def _append(window: OutputWindow, chunk: RunningOutput) -> RunningOutput:
    return replace(chunk, window=window.write(chunk.window.start, chunk.window.text))


class Viewer:
    """Receives frames from its feed and delivers them in order, each once.

    It first replays stored frames from its cursor, then is live. A viewer that lags behind goes
    back to replaying, so it misses nothing and little waits for it in memory.
    """

    def __init__(
        self,
        feed: LogFeed,
        *,
        after: int,
        principal: Principal,
        write_now: WriteNow | None = None,
    ) -> None:
        self.feed = feed
        self.principal = principal
        self._write_now = write_now
        self._is_idle = False  # Everything before was delivered, and `next` waits for a frame.
        self._cursor = after  # The last stored frame that was delivered or waits for delivery.
        self._is_live = False
        self._queue_moved = False  # During a replay, which reads no order of the queue.
        self._fault: Fault | None = None
        self._changed = asyncio.Event()
        self._waiting: list[Frame] = []
        self._waiting_characters = 0
        self._stored_answers: deque[UUID] = deque(maxlen=REMEMBERED_ANSWERS)

    async def next(self, seconds: float | None = None) -> list[Frame]:
        """Return the next frames, or an empty list if none come for this many seconds."""
        while True:
            if self._fault:
                raise self._fault
            if self._waiting:
                frames, self._waiting, self._waiting_characters = self._waiting, [], 0
                return join_deltas(frames)
            if not self._is_live:
                if frames := await self._replay():
                    return frames
                continue
            self._changed.clear()
            self._is_idle = True
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                return []
            finally:
                self._is_idle = False

    def offer(self, frame: Frame) -> None:
        """Deliver a live frame or let it wait, unless the replay delivers it."""
        if not self._is_live:
            self._queue_moved |= frame is QUEUE_MOVED
            return
        if self._is_known(frame):
            return
        if self._is_full() or (frame.seq is not None and frame.seq != self._cursor + 1):
            self._is_live = False  # The replay reads what is left out here.
            self._queue_moved |= frame is QUEUE_MOVED
        else:
            self._advance(frame)
            if self._was_written(frame):
                return
            self._waiting.append(frame)
            self._waiting_characters += len(frame.text)
        self._changed.set()

    def _was_written(self, frame: Frame) -> bool:
        """Write the frame at once if nothing is before it. This wakes no task of the viewer."""
        can_write = self._write_now and self._is_idle and not self._waiting and not self._fault
        return bool(can_write and self._write_now and self._write_now(frame))

    def drop(self, fault: Fault) -> None:
        """End this viewer: its next read raises the fault."""
        self._fault = fault
        self._changed.set()

    def _is_known(self, frame: Frame) -> bool:
        if frame.seq is None:
            return frame.answer_id in self._stored_answers
        return frame.seq <= self._cursor

    def _is_full(self) -> bool:
        return (
            len(self._waiting) >= MAX_WAITING_FRAMES
            or self._waiting_characters >= MAX_WAITING_CHARACTERS
        )

    def _advance(self, frame: Frame) -> None:
        """Move the cursor past a stored frame."""
        if frame.seq is not None:
            self._cursor = frame.seq
            if frame.answer_id:
                self._stored_answers.append(frame.answer_id)

    async def _replay(self) -> list[Frame]:
        """Read the next page. The last page ends with the live text, and the viewer goes live."""
        try:
            page = await read(self.feed.log.page, self._cursor)
            if not page.frames and self._cursor != self.feed.last_seq:
                await self._clamp_cursor()
        except Error as error:
            raise StreamUnavailable from error
        for frame in page.frames:
            self._advance(frame)
        self.feed.forget_stored_answer(page.frames)
        # Nothing is awaited from here to the end, so the feed cannot broadcast in between.
        self.feed.send_answer()
        if not page.is_last or self._cursor < self.feed.last_seq:
            return page.frames
        self._is_live = True
        answer, live = self.feed.answer, []
        if answer and answer.text and answer.event_id not in self._stored_answers:
            live.append(self.feed.log.delta(answer, 0))
        live += self.feed.outputs.frames()
        if self._queue_moved:
            live.append(QUEUE_MOVED)
            self._queue_moved = False
        return [*page.frames, *live]

    async def _clamp_cursor(self) -> None:
        """Begin at the end of the log if the cursor is beyond it, where it would wait forever."""
        state = await read(self.feed.log.state)
        self._cursor = min(self._cursor, state.last_seq)
