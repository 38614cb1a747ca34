"""Keeps the drafts of running answers and sends their new text to viewers, in bundles.

One thread per process writes all drafts that changed, so that the load on the database does not
grow with the number of tokens. A draft is stored before its delta is sent: who joins reads the
draft and misses nothing. A stale writer stores nothing and sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from uuid import UUID

import orjson

from sessions_app.lanes import Claim
from sessions_app.pumps import Pump
from sessions_app.statements import rows
from sessions_app.stream import Delta, send_deltas
from tools_app.clip import storable

BUNDLE_SECONDS = 0.03
STORE = """
WITH held AS (
  SELECT d.* FROM jsonb_to_recordset(%s::jsonb)
      AS d(session_id uuid, epoch bigint, run_id uuid, event_id uuid, start int, text text)
    JOIN agent_sessions s ON s.id = d.session_id AND s.lane_epoch = d.epoch AND s.status = 'running'),
grown AS (
  UPDATE session_drafts t SET text = left(t.text, h.start) || h.text
    FROM held h WHERE t.session_id = h.session_id AND t.event_id = h.event_id AND t.epoch = h.epoch
     AND length(t.text) >= h.start
  RETURNING t.session_id),
begun AS (
  INSERT INTO session_drafts AS t (session_id, event_id, run_id, epoch, text)
  SELECT session_id, event_id, run_id, epoch, text FROM held WHERE start = 0
     AND session_id NOT IN (SELECT session_id FROM grown)
  ON CONFLICT (session_id) DO UPDATE SET event_id = excluded.event_id, run_id = excluded.run_id,
     epoch = excluded.epoch, text = excluded.text
  RETURNING t.session_id)
SELECT session_id FROM grown UNION ALL SELECT session_id FROM begun
"""


class DraftWriter:
    """The draft of one answer. Text is added by its lane, and carried off by the pump."""

    def __init__(self, claim: Claim, event_id: UUID) -> None:
        self.claim = claim
        self.event_id = event_id
        self.stored = 0  #: Code points that are known to be in the draft.
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        self._pieces.append(storable(text))

    def news(self) -> str:
        """What the draft lacks."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0][self.stored :]

    def row(self, news: str) -> dict[str, Any]:
        return {
            "session_id": self.claim.session_id,
            "epoch": self.claim.epoch,
            "run_id": self.claim.run_id,
            "event_id": self.event_id,
            "start": self.stored,
            "text": news,
        }

    def delta(self, news: str) -> Delta:
        return Delta(
            session_id=self.claim.session_id,
            event_id=self.event_id,
            run_id=self.claim.run_id,
            offset=self.stored,
            text=news,
        )


class DraftPump(Pump):
    """Stores and sends what all writers of this process have added, some thirty times a second."""

    def __init__(self) -> None:
        self._writers: set[DraftWriter] = set()
        super().__init__("drafts", every=BUNDLE_SECONDS)

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

    def flush(self) -> None:
        """Store what was added since the last time, then send it.

        Nothing is forgotten before it is known to be stored; storing twice changes nothing. A draft
        that is gone, as after a crash of the database, is written from its beginning again.
        """
        news = {writer: text for writer in self._writers if (text := writer.news())}
        if not news:
            return
        batch = orjson.dumps([w.row(text) for w, text in news.items()], default=str).decode()
        stored = {session_id for (session_id,) in rows(STORE, [batch])}
        send_deltas([w.delta(text) for w, text in news.items() if w.claim.session_id in stored])
        for writer, text in news.items():
            known = writer.claim.session_id in stored
            writer.stored = writer.stored + len(text) if known else 0


@cache
def pump() -> DraftPump:
    """The pump of this process."""
    return DraftPump()
