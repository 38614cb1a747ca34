"""Publishes to a session's channel group: that its log grew, new answer text, new tool output.

Viewers read stored events from the log themselves; only text that is not stored as an event yet
travels in the message.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import Error, transaction

from core import channel_layer
from core.db import release_connection

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Delta:
    """New text of a running answer, or of the thinking before it. `offset` counts code points from
    the beginning.
    """

    session_id: UUID
    event_id: UUID
    run_id: UUID | None
    offset: int
    text: str
    #: What the text is: `text` or `thinking`.
    kind: str = "text"

    def message(self) -> dict[str, Any]:
        return {
            "type": "delta",
            "event_id": str(self.event_id),
            "run_id": self.run_id and str(self.run_id),
            "offset": self.offset,
            "text": self.text,
        }


@dataclass(frozen=True, kw_only=True)
class OutputDelta:
    """New output of a running tool call. `offset` counts code points from the output's beginning."""

    session_id: UUID
    run_id: UUID | None
    tool_use_id: str
    name: str
    offset: int
    text: str

    def message(self) -> dict[str, Any]:
        return {
            "type": "output",
            "session_id": str(self.session_id),
            "run_id": self.run_id and str(self.run_id),
            "tool_use_id": self.tool_use_id,
            "name": self.name,
            "offset": self.offset,
            "text": self.text,
        }


def session_group(session_id: UUID) -> str:
    return f"session.{session_id}"


def notify_log_grew(session_id: UUID, *, is_urgent: bool = True) -> None:
    """Notify viewers that the log grew, after the commit and without waiting for it.

    Many sessions that grow at the same time cost one statement.
    """
    channel_layer.send_soon(session_group(session_id), {"type": "log.grew"}, is_urgent=is_urgent)


def notify_queue_moved(session_id: UUID) -> None:
    """Notify viewers, after the commit, that waiting messages changed their order.

    The order is not part of the log, so there is no event to read.
    """
    send = partial(channel_layer.send_soon, session_group(session_id), {"type": "queue.moved"})
    transaction.on_commit(send)


def publish_deltas(deltas: Sequence[Delta | OutputDelta]) -> None:
    """Publish new text of several answers or tool calls in one statement."""
    channel_layer.send_many([(session_group(d.session_id), d.message()) for d in deltas])


class BatchPublisher:
    """Calls `flush` on a thread of this process, at an interval, while `_has_work` is set.

    `_lock` guards the writers that a subclass registers and is held during `flush`.
    """

    def __init__(self, name: str, *, interval: float) -> None:
        self._lock = threading.Lock()
        self._has_work = threading.Event()
        self._interval = interval
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def flush(self) -> None:
        """Store and publish everything that is new. The caller holds the lock."""
        raise NotImplementedError

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._has_work.wait()
            pause.wait(self._interval)
            try:
                with self._lock:
                    self.flush()
            except Error:
                log.warning("flush_failed", publisher=threading.current_thread().name)
            finally:
                release_connection()
