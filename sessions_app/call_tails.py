"""What running calls have said, as the viewers of one log in this process have it.

It begins with rows, which are up to a second behind, and goes on with live pieces. A piece that does
not follow its row waits until a newer row has what is missing: nobody sees lines without those before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sessions_app.encoding import Frame
from sessions_app.reader import CallTail
from sessions_app.saying import Tail


class CallTails:
    def __init__(self) -> None:
        self._known: dict[str, CallTail] = {}
        self._ahead: dict[str, CallTail] = {}  #: Pieces that wait for what came before them.
        self._followed: set[str] = set()  #: Calls of which no piece was missed since their row.

    def begin(self, rows: Mapping[str, CallTail]) -> None:
        self._known = dict(rows)

    def frames(self) -> Iterator[Frame]:
        """What a viewer who joins is shown."""
        return (call.frame() for call in self._known.values())

    def take(self, piece: CallTail) -> Frame | None:
        """A live piece, as it is handed on. None: something before it is missing, so it waits."""
        call = piece.tool_use_id
        if call in self._ahead:
            self._ahead[call] = _joined(self._ahead[call].tail, piece)
            return None
        known = self._known[call].tail if call in self._known else Tail()
        if call not in self._followed and not known.start <= piece.tail.start <= known.end:
            self._ahead[call] = piece
            return None
        self._followed.add(call)
        self._known[call] = _joined(known, piece)
        return piece.frame()

    def catch_up(self, rows: Mapping[str, CallTail]) -> list[Frame]:
        """Close what gaps the rows of now can close, and hand on what waited."""
        waiting, self._ahead = self._ahead, {}
        return [self._close_gap(piece, rows.get(call)) for call, piece in waiting.items()]

    def _close_gap(self, piece: CallTail, row: CallTail | None) -> Frame:
        call = piece.tool_use_id
        shown = self._known[call].tail if call in self._known else Tail()
        whole = _joined(row.tail if row else shown, piece)
        self._known[call] = whole
        self._followed.add(call)
        begin = max(shown.end, whole.tail.start)
        return whole.piece(begin, whole.tail.text[begin - whole.tail.start :])

    def doubt(self) -> None:
        """Pieces may have been lost: the next ones are looked at again."""
        self._followed.clear()

    def end(self, call: str) -> None:
        """Its result is there."""
        self._known.pop(call, None)
        self._ahead.pop(call, None)
        self._followed.discard(call)

    def clear(self) -> None:
        for call in [*self._known, *self._ahead]:
            self.end(call)


def _joined(before: Tail, piece: CallTail) -> CallTail:
    return replace(piece, tail=before.joined(piece.tail.start, piece.tail.text))
