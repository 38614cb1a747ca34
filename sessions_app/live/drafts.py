"""Stores the drafts of running answers and publishes their new text in batches.

One thread per process writes all drafts that changed, so the load on the database does not grow
with the number of tokens. A draft is stored before its delta is published: a viewer that joins
reads the draft and misses nothing. A worker that lost its lease stores and publishes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from uuid import UUID

import orjson

from core.ids import uuid7
from core.validation import storable
from sessions_app.lanes.run_queue import Claim
from sessions_app.live.publisher import BatchPublisher, Delta, publish_deltas
from sessions_app.log.sql import rows
from sessions_app.models import Draft

FLUSH_SECONDS = 0.03
STORE_DRAFTS = """
WITH held AS (
  SELECT d.* FROM jsonb_to_recordset(%s::jsonb)
      AS d(session_id uuid, epoch bigint, run_id uuid, event_id uuid, kind text, start int,
           text text)
    JOIN agent_sessions s ON s.id = d.session_id AND s.lane_epoch = d.epoch AND s.status = 'running'),
grown AS (
  UPDATE session_drafts t SET text = left(t.text, h.start) || h.text
    FROM held h WHERE t.session_id = h.session_id AND t.event_id = h.event_id AND t.epoch = h.epoch
     AND length(t.text) >= h.start
  RETURNING t.session_id),
begun AS (
  INSERT INTO session_drafts AS t (session_id, event_id, run_id, epoch, kind, text)
  SELECT session_id, event_id, run_id, epoch, kind, text FROM held WHERE start = 0
     AND session_id NOT IN (SELECT session_id FROM grown)
  ON CONFLICT (session_id) DO UPDATE SET event_id = excluded.event_id, run_id = excluded.run_id,
     epoch = excluded.epoch, kind = excluded.kind, text = excluded.text
  RETURNING t.session_id)
SELECT session_id FROM grown UNION ALL SELECT session_id FROM begun
"""


class DraftWriter:
    """Collects the text of one answer. Its lane adds text; the publisher's thread takes it."""

    def __init__(self, claim: Claim, event_id: UUID, kind: str = Draft.Kind.TEXT) -> None:
        self.claim = claim
        self.event_id = event_id
        self.kind = kind
        self.stored = 0  #: Code points that are known to be in the stored draft.
        self._chunks: list[str] = []

    def add(self, text: str) -> None:
        self._chunks.append(storable(text))

    @property
    def is_empty(self) -> bool:
        return not self._chunks

    def unstored_text(self) -> str:
        """Return the text that the stored draft lacks."""
        self._chunks = ["".join(self._chunks)]
        return self._chunks[0][self.stored :]

    def row(self, text: str) -> dict[str, Any]:
        return {
            "session_id": self.claim.session_id,
            "epoch": self.claim.epoch,
            "run_id": self.claim.run_id,
            "event_id": self.event_id,
            "kind": self.kind,
            "start": self.stored,
            "text": text,
        }

    def delta(self, text: str) -> Delta:
        return Delta(
            session_id=self.claim.session_id,
            event_id=self.event_id,
            run_id=self.claim.run_id,
            offset=self.stored,
            text=text,
            kind=self.kind,
        )


class AnswerDraft:
    """The draft of one answer: its thinking, which its text replaces as soon as that begins."""

    def __init__(self, claim: Claim, event_id: UUID, thinking_id: UUID) -> None:
        self.text = DraftWriter(claim, event_id)
        self.thinking = DraftWriter(claim, thinking_id, Draft.Kind.THINKING)

    @property
    def current(self) -> DraftWriter:
        """Return what is stored and published now: a session has one draft."""
        return self.thinking if self.text.is_empty else self.text


class DraftPublisher(BatchPublisher):
    """Stores and publishes the text that all writers of this process added."""

    def __init__(self) -> None:
        self._drafts: set[AnswerDraft] = set()
        super().__init__("drafts", interval=FLUSH_SECONDS)

    @contextmanager
    def open_draft(
        self, claim: Claim, event_id: UUID, thinking_id: UUID | None = None
    ) -> Iterator[AnswerDraft]:
        """Yield the draft of one answer. After the block none of it is stored or published."""
        draft = AnswerDraft(claim, event_id, thinking_id or uuid7())
        with self._lock:
            self._drafts.add(draft)
            self._has_work.set()
        try:
            yield draft
        finally:
            with self._lock:
                self._drafts.discard(draft)
                if not self._drafts:
                    self._has_work.clear()

    def flush(self) -> None:
        """Store the text that was added since the last flush, then publish it.

        Text counts as stored only when the database confirmed it, and storing it twice changes
        nothing. A draft that disappeared, as after a crash of the database, is written again from
        its beginning.
        """
        writers = [draft.current for draft in self._drafts]
        added = {writer: text for writer in writers if (text := writer.unstored_text())}
        if not added:
            return
        batch = orjson.dumps([w.row(text) for w, text in added.items()], default=str).decode()
        stored = {session_id for (session_id,) in rows(STORE_DRAFTS, [batch])}
        publish_deltas([w.delta(text) for w, text in added.items() if w.claim.session_id in stored])
        for writer, text in added.items():
            is_stored = writer.claim.session_id in stored
            writer.stored = writer.stored + len(text) if is_stored else 0


@cache
def draft_publisher() -> DraftPublisher:
    """Return the publisher of this process."""
    return DraftPublisher()
