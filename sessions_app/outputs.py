"""Sends what running tools say to viewers, in bundles, and keeps its newest part for a while.

One thread per process carries the output of all calls, some ten times a second; a row per call is
written once a second at most. A call that says nothing costs nothing, and a stale worker sends
nothing. Nothing of it is a record: the result is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import orjson
import structlog
from django.db import Error

from sessions_app.lanes import Claim
from sessions_app.models import ToolExecution, ToolOutput
from sessions_app.pumps import Pump
from sessions_app.saying import Saying
from sessions_app.statements import rows
from sessions_app.stream import OutputPiece, send_outputs

log = structlog.get_logger(__name__)

BUNDLE_SECONDS = 0.1
STORE_SECONDS = 1.0
STORE = """
WITH held AS (
  SELECT d.* FROM jsonb_to_recordset(%s::jsonb) AS d(tool_use_id text, session_id uuid, epoch bigint,
      run_id uuid, name text, start bigint, text text)
    JOIN agent_sessions s ON s.id = d.session_id AND s.lane_epoch = d.epoch AND s.status = 'running'),
left_over AS (
  DELETE FROM session_tool_outputs t USING held h
   WHERE t.session_id = h.session_id AND t.epoch < h.epoch
     AND t.tool_use_id NOT IN (SELECT tool_use_id FROM held)),
kept AS (
  INSERT INTO session_tool_outputs AS t (tool_use_id, session_id, run_id, epoch, name, start, text)
  SELECT tool_use_id, session_id, run_id, epoch, name, start, text FROM held WHERE text IS NOT NULL
  ON CONFLICT (tool_use_id) DO UPDATE SET run_id = excluded.run_id, epoch = excluded.epoch,
     start = excluded.start, text = excluded.text)
SELECT tool_use_id FROM held
"""


class CallOutput(Saying):
    """The output of one call."""

    def __init__(self, claim: Claim, call: ToolExecution, secrets: Sequence[str] = ()) -> None:
        super().__init__(secrets)
        self.claim, self.call = claim, call
        self.stored_at = float("-inf")
        self.stored_end = 0

    def row(self, now: float) -> dict[str, Any]:
        """What the database is told; the text itself only when it is due."""
        due = now - self.stored_at >= STORE_SECONDS and self.tail.end > self.stored_end
        return {
            "tool_use_id": self.call.tool_use_id,
            "session_id": self.claim.session_id,
            "epoch": self.claim.epoch,
            "run_id": self.claim.run_id,
            "name": self.call.name,
            "start": self.tail.start,
            "text": self.tail.text if due else None,
        }

    def news(self) -> OutputPiece | None:
        offset, text = self.piece()
        if not text:
            return None
        return OutputPiece(
            session_id=self.claim.session_id,
            run_id=self.claim.run_id,
            tool_use_id=self.call.tool_use_id,
            name=self.call.name,
            offset=offset,
            text=text,
        )


class OutputPump(Pump):
    """Stores and sends what the calls of this process say."""

    def __init__(self) -> None:
        self._calls: set[CallOutput] = set()
        super().__init__("tool outputs", every=BUNDLE_SECONDS)

    def take(self, output: CallOutput, text: str) -> None:
        output.add(text)
        if output not in self._calls:
            with self._lock:
                self._calls.add(output)
                self._busy.set()

    def end(self, output: CallOutput) -> None:
        """After this nothing of the call is stored or sent any more."""
        with self._lock:
            self._calls.discard(output)
            if not self._calls:
                self._busy.clear()
        if output.stored_end:
            ToolOutput.objects.filter(pk=output.call.tool_use_id).delete()

    def flush(self) -> None:
        """Store what is due and send what is new, each in one statement for all calls."""
        for output in self._calls:
            output.ripen()
        now = time.monotonic()
        told = {o: row for o in self._calls if (row := o.row(now))["text"] or o.piece()[1]}
        if not told:
            return
        batch = orjson.dumps(list(told.values()), default=str).decode()
        held = {tool_use_id for (tool_use_id,) in rows(STORE, [batch])}
        ours = [o for o in told if o.call.tool_use_id in held]
        pieces = {o: piece for o in ours if (piece := o.news())}
        send_outputs(list(pieces.values()))
        for output, piece in pieces.items():
            output.sent = piece.offset + len(piece.text)
        for output in ours:
            if told[output]["text"] is not None:
                output.stored_at, output.stored_end = now, output.tail.end


@cache
def pump() -> OutputPump:
    """The pump of this process."""
    return OutputPump()


@contextmanager
def speaking(
    claim: Claim, call: ToolExecution, secrets: Sequence[str] = ()
) -> Iterator[CallOutput]:
    """The output of a call for as long as the block lasts; `pump().take` gives it text."""
    output = CallOutput(claim, call, secrets)
    try:
        yield output
    finally:
        try:
            pump().end(output)
        except Error:
            log.warning("tool_output_not_removed")
