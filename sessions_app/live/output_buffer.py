"""Buffers the output of running tool calls, publishes it in batches and stores its newest part.

One thread per process publishes the output of all calls about ten times a second and writes a
call's row at most once a second. A silent call costs nothing, and a worker that lost its lease
publishes nothing. The stored part serves viewers that join late; the record is the tool's result.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
import structlog
from django.db import Error

from core.logging import REMOVED, redact_text
from core.validation import storable
from sessions_app.lanes.run_queue import Claim
from sessions_app.live.publisher import BatchPublisher, OutputDelta, publish_deltas
from sessions_app.log.sql import rows
from sessions_app.models import ToolExecution, ToolOutput

log = structlog.get_logger(__name__)

#: Code points of a call's output that are stored for viewers that join late.
WINDOW_SIZE = 32_000
#: Bytes of one frame's text.
MAX_FRAME_BYTES = 8_000
#: An unfinished line is released after this long. Only a whole line can be searched for secrets.
PARTIAL_LINE_SECONDS = 0.4
MAX_LINE_LENGTH = 4_000
FLUSH_SECONDS = 0.1
STORE_SECONDS = 1.0
STORE_OUTPUTS = """
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

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
#: Text that a carriage return let later text overwrite, as progress bars do.
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")


@dataclass(frozen=True, kw_only=True)
class OutputWindow:
    """The newest part of an output. `start` counts code points from the output's beginning."""

    start: int = 0
    text: str = ""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def write(self, offset: int, text: str) -> OutputWindow:
        """Return the window with this text at its offset. Text beyond a gap replaces the window."""
        if self.start <= offset <= self.end:
            start, whole = self.start, self.text[: offset - self.start] + text
        else:
            start, whole = offset, text
        dropped = max(0, len(whole) - WINDOW_SIZE)
        return OutputWindow(start=start + dropped, text=whole[dropped:])


class OutputBuffer:
    """Takes raw text on the tool's thread and releases clean text on the publisher's thread."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self.window = OutputWindow()
        self.published = 0  #: Code points that viewers were sent.
        self._secrets = sorted((s for s in secrets if s), key=len, reverse=True)
        self._raw: list[str] = []
        self._raw_size = 0
        self._dropped = 0
        self._waiting_since = 0.0
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        with self._lock:
            if not self._raw:
                self._waiting_since = time.monotonic()
            self._raw.append(text)
            self._raw_size += len(text)
            if self._raw_size > 2 * WINDOW_SIZE:
                # Masked before it is cut: half a secret would not be recognised.
                whole = remove_secrets("".join(self._raw), self._secrets)
                kept = whole[-WINDOW_SIZE:]
                self._raw, self._raw_size = [kept], len(kept)
                self._dropped += len(whole) - len(kept)

    def release(self) -> None:
        """Move the text that may be shown by now into the window."""
        dropped, raw = self._take_lines()
        text = _clean(raw, self._secrets)
        if dropped:
            self.window = OutputWindow(start=self.window.end + dropped)
        if text:
            self.window = self.window.write(self.window.end, text)

    def next_chunk(self) -> tuple[int, str]:
        """Return the next text to publish and its offset. Text that left the window is skipped."""
        start = max(self.published, self.window.start)
        text = self.window.text[start - self.window.start :]
        return start, text.encode()[:MAX_FRAME_BYTES].decode(errors="ignore")

    def _take_lines(self) -> tuple[int, str]:
        """Return how much was dropped, and the finished lines; an unfinished one if late or long."""
        with self._lock:
            whole, dropped = "".join(self._raw), self._dropped
            end = whole.rfind("\n") + 1
            is_late = time.monotonic() - self._waiting_since > PARTIAL_LINE_SECONDS
            if is_late or len(whole) - end > MAX_LINE_LENGTH:
                end = len(whole)
            end = _last_safe_cut(whole, end, self._secrets)
            if end:
                self._waiting_since = time.monotonic()
            rest = whole[end:]
            self._raw, self._raw_size, self._dropped = [rest] if rest else [], len(rest), 0
            return dropped, whole[:end]


def _clean(text: str, secrets: Sequence[str]) -> str:
    if not text:
        return ""
    plain = _OVERWRITTEN.sub("", _ANSI.sub("", storable(text))).replace("\r\n", "\n")
    return redact_text(remove_secrets(plain, secrets))


def remove_secrets(text: str, secrets: Sequence[str]) -> str:
    """Replace every occurrence of these secrets in the text, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REMOVED)
    return text


def _last_safe_cut(text: str, end: int, secrets: Sequence[str]) -> int:
    """Return the last place up to `end` where a cut leaves no half of a secret before it."""
    end -= max((_begun_secret(text[:end], secret) for secret in secrets), default=0)
    is_safe = False
    while not is_safe:
        is_safe = True
        for secret in secrets:
            # Searches where an occurrence would reach over the cut.
            at = text.rfind(secret, max(0, end - len(secret) + 1), end + len(secret) - 1)
            if at >= 0:
                end, is_safe = at, False
    return end


def _begun_secret(text: str, secret: str) -> int:
    """Return how many characters at the end of a text are the beginning of a secret."""
    tail = text[max(0, len(text) - len(secret) + 1) :]
    at = tail.find(secret[0])
    while at >= 0 and not secret.startswith(tail[at:]):
        at = tail.find(secret[0], at + 1)
    return len(tail) - at if at >= 0 else 0


class CallOutput(OutputBuffer):
    """The output of one tool call, with what is already stored of it."""

    def __init__(self, claim: Claim, call: ToolExecution, secrets: Sequence[str] = ()) -> None:
        super().__init__(secrets)
        self.claim, self.call = claim, call
        self.stored_at = float("-inf")
        self.stored_end = 0

    def row(self, now: float) -> dict[str, Any]:
        """Return the row to store. Its text is None while the next write is not due."""
        is_due = now - self.stored_at >= STORE_SECONDS and self.window.end > self.stored_end
        return {
            "tool_use_id": self.call.tool_use_id,
            "session_id": self.claim.session_id,
            "epoch": self.claim.epoch,
            "run_id": self.claim.run_id,
            "name": self.call.name,
            "start": self.window.start,
            "text": self.window.text if is_due else None,
        }

    def delta(self) -> OutputDelta | None:
        offset, text = self.next_chunk()
        if not text:
            return None
        return OutputDelta(
            session_id=self.claim.session_id,
            run_id=self.claim.run_id,
            tool_use_id=self.call.tool_use_id,
            name=self.call.name,
            offset=offset,
            text=text,
        )


class OutputPublisher(BatchPublisher):
    """Stores and publishes the output of all tool calls of this process."""

    def __init__(self) -> None:
        self._calls: set[CallOutput] = set()
        super().__init__("tool outputs", interval=FLUSH_SECONDS)

    def write(self, output: CallOutput, text: str) -> None:
        output.add(text)
        if output not in self._calls:
            with self._lock:
                self._calls.add(output)
                self._has_work.set()

    def close(self, output: CallOutput) -> None:
        """Forget a call: after this none of its output is stored or published."""
        with self._lock:
            self._calls.discard(output)
            if not self._calls:
                self._has_work.clear()
        if output.stored_end:
            ToolOutput.objects.filter(pk=output.call.tool_use_id).delete()

    def flush(self) -> None:
        """Store what is due and publish what is new, each in one statement for all calls."""
        for output in self._calls:
            output.release()
        now = time.monotonic()
        batch = {o: row for o in self._calls if (row := o.row(now))["text"] or o.next_chunk()[1]}
        if not batch:
            return
        encoded = orjson.dumps(list(batch.values()), default=str).decode()
        held = {tool_use_id for (tool_use_id,) in rows(STORE_OUTPUTS, [encoded])}
        current = [o for o in batch if o.call.tool_use_id in held]
        deltas = {o: delta for o in current if (delta := o.delta())}
        publish_deltas(list(deltas.values()))
        for output, delta in deltas.items():
            output.published = delta.offset + len(delta.text)
        for output in current:
            if batch[output]["text"] is not None:
                output.stored_at, output.stored_end = now, output.window.end


@cache
def output_publisher() -> OutputPublisher:
    """Return the publisher of this process."""
    return OutputPublisher()


@contextmanager
def open_output(
    claim: Claim, call: ToolExecution, secrets: Sequence[str] = ()
) -> Iterator[CallOutput]:
    """Yield the output of a call, for `output_publisher().write`, and remove it after the block."""
    output = CallOutput(claim, call, secrets)
    try:
        yield output
    finally:
        try:
            output_publisher().close(output)
        except Error:
            log.warning("tool_output_not_removed")
