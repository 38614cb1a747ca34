"""What one running call says: made fit to be shown, and bounded to its newest part."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from config.redaction import REMOVED, redact_text
from tools_app.clip import storable

#: Code points of a call's output that are kept for whoever joins late.
KEPT = 32_000
#: Bytes of one frame's text.
MOST_FRAME_BYTES = 8_000
#: A line without an end is shown after this long: a secret is known only when it is whole.
PATIENCE_SECONDS = 0.4
LONGEST_LINE = 4_000

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
#: What a later part of the same line was written over, as progress bars do.
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")


@dataclass(frozen=True, kw_only=True)
class Tail:
    """The newest part of what was said. `start` counts code points from the beginning."""

    start: int = 0
    text: str = ""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def joined(self, offset: int, text: str) -> Tail:
        """With new text at its place. What does not follow replaces what was known."""
        if self.start <= offset <= self.end:
            start, whole = self.start, self.text[: offset - self.start] + text
        else:
            start, whole = offset, text
        lost = max(0, len(whole) - KEPT)
        return Tail(start=start + lost, text=whole[lost:])


class Saying:
    """Takes text on the tool's thread; gives away what is fit to be shown on the pump's."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self.tail = Tail()
        self.sent = 0  #: Code points that viewers were sent.
        self._secrets = sorted((s for s in secrets if s), key=len, reverse=True)
        self._raw: list[str] = []
        self._raw_size = 0
        self._lost = 0
        self._since = 0.0
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        with self._lock:
            if not self._raw:
                self._since = time.monotonic()
            self._raw.append(text)
            self._raw_size += len(text)
            if self._raw_size > 2 * KEPT:
                whole = "".join(self._raw)
                self._raw, self._raw_size = [whole[-KEPT:]], KEPT
                self._lost += len(whole) - KEPT

    def ripen(self) -> None:
        """Move what can be shown by now to the tail."""
        lost, ripe = self._take()
        text = _shown(ripe, self._secrets)
        if lost:
            self.tail = Tail(start=self.tail.end + lost)
        if text:
            self.tail = self.tail.joined(self.tail.end, text)

    def piece(self) -> tuple[int, str]:
        """The next text to send, and where it begins. What is gone from the tail is left out."""
        start = max(self.sent, self.tail.start)
        news = self.tail.text[start - self.tail.start :]
        return start, news.encode()[:MOST_FRAME_BYTES].decode(errors="ignore")

    def _take(self) -> tuple[int, str]:
        """Whole lines; a part of one only when it was long in coming, or is long."""
        with self._lock:
            whole, lost = "".join(self._raw), self._lost
            at = whole.rfind("\n") + 1
            late = time.monotonic() - self._since > PATIENCE_SECONDS
            if late or len(whole) - at > LONGEST_LINE:
                at = len(whole)
            if at:
                self._since = time.monotonic()
            rest = whole[at:]
            self._raw, self._raw_size, self._lost = [rest] if rest else [], len(rest), 0
            return lost, whole[:at]


def _shown(text: str, secrets: Sequence[str]) -> str:
    if not text:
        return ""
    plain = _OVERWRITTEN.sub("", _ANSI.sub("", storable(text))).replace("\r\n", "\n")
    return redact_text(hide(plain, secrets))


def hide(text: str, secrets: Sequence[str]) -> str:
    """The text without these very words."""
    for secret in secrets:
        text = text.replace(secret, REMOVED)
    return text
