"""Keeps the drafts of running answers and sends their new text to viewers, in bundles.

One thread per process writes all drafts that changed, so that the load on the database does not
grow with the number of tokens. A draft is stored before its delta is sent: who joins reads the
draft and misses nothing. A stale writer stores nothing and sends nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from uuid import UUID

import orjson
import structlog
from django.db import DatabaseError

from sessions_app.lanes import Claim
from sessions_app.models import Draft, Session
from sessions_app.statements import let_go, rows
from sessions_app.stream import Delta, send_deltas

log = structlog.get_logger(__name__)

BUNDLE_SECONDS = 0.03
STORE = """
WITH held AS (
  SELECT d.* FROM jsonb_to_recordset(%s::jsonb)
      AS d(session_id uuid, epoch bigint, run_id uuid, event_id uuid, text text)
    JOIN agent_sessions s ON s.id = d.session_id AND s.lane_epoch = d.epoch AND s.status = 'running')
INSERT INTO session_drafts AS t (session_id, event_id, run_id, epoch, text)
SELECT session_id, event_id, run_id, epoch, text FROM held
ON CONFLICT (session_id) DO UPDATE SET
  text = CASE WHEN t.event_id = excluded.event_id THEN t.text || excluded.text ELSE excluded.text END,
  event_id = excluded.event_id, run_id = excluded.run_id, epoch = excluded.epoch
RETURNING session_id
"""


class DraftWriter:
    """The draft of one answer. Text is added by its lane, and carried off by the pump."""

    def __init__(self, claim: Claim, event_id: UUID) -> None:
        self.claim = claim
        self.event_id = event_id
        self.offset = 0
        self._pending: list[str] = []

    def add(self, text: str) -> None:
        self._pending.append(text)

    def take(self) -> str:
        """What was added since the last time. NUL cannot be stored as text and is dropped."""
        taken, self._pending = self._pending, []
        return "".join(taken).replace("\0", "")

    def row(self, text: str) -> dict[str, Any]:
        return {
            "session_id": self.claim.session_id,
            "epoch": self.claim.epoch,
            "run_id": self.claim.run_id,
            "event_id": self.event_id,
            "text": text,
        }

    def delta(self, text: str) -> Delta:
        return Delta(
            session_id=self.claim.session_id,
            event_id=self.event_id,
            run_id=self.claim.run_id,
            offset=self.offset,
            text=text,
        )


class DraftPump:
    """Stores and sends what all writers of this process have added, some thirty times a second."""

    def __init__(self) -> None:
        self._writers: set[DraftWriter] = set()
        self._lock = threading.Lock()
        self._busy = threading.Event()
        threading.Thread(target=self._work, name="drafts", daemon=True).start()

    @contextmanager
    def writing(self, claim: Claim, event_id: UUID) -> Iterator[DraftWriter]:
        """A writer for one answer. After the block nothing of it is stored or sent any more."""
        writer = DraftWriter(claim, event_id)
        with self._lock:
            self._writers.add(writer)
            self._busy.set()
        try:
            yield writer
        finally:
            with self._lock:
                self._writers.discard(writer)
                if not self._writers:
                    self._busy.clear()

    def _work(self) -> None:
        pause = threading.Event()
        while True:
            self._busy.wait()
            pause.wait(BUNDLE_SECONDS)
            try:
                with self._lock:
                    self.flush()
            except DatabaseError:
                log.warning("drafts_not_stored")
            finally:
                let_go()

    def flush(self) -> None:
        """Store what was added since the last time, then send it."""
        taken = {w: text for w in self._writers if (text := w.take())}
        if not taken:
            return
        batch = orjson.dumps([w.row(text) for w, text in taken.items()], default=str).decode()
        stored = {session_id for (session_id,) in rows(STORE, [batch])}
        send_deltas([w.delta(t) for w, t in taken.items() if w.claim.session_id in stored])
        for writer, text in taken.items():
            writer.offset += len(text)


@cache
def pump() -> DraftPump:
    """The pump of this process."""
    return DraftPump()


def draft_of(session: Session) -> Draft | None:
    """The draft of the answer that is running now, not of one that a lost worker left."""
    return Draft.objects.filter(session=session, epoch=session.lane_epoch).first()
