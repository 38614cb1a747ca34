"""Keeps recent conversations in the memory of a worker, so that a turn reads and builds only what is new.

An event never changes, except that a message is taken once. So entries that are held stay true, and
those that still waited are read again. A new snapshot begins a new conversation.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from uuid import UUID

from agents.providers.base import Message
from sessions_app.context.conversation import LogEntry, MessageBuilder, build_view, read_newest
from sessions_app.models import SessionEvent
from tools_app.taint import fence_mark

#: As many new entries are read with a run. If there are as many, there may be more of them.
MOST_NEW = 200
#: Entries that one process keeps, and how long it keeps those of a session without runs.
MOST_KEPT = 50_000
SECONDS_KEPT = 600.0
#: Larger entries, such as the results of some tools, count as several.
ENTRY_CHARACTERS = 4_000


@dataclass(frozen=True, kw_only=True)
class KnownEntries:
    """All entries of a conversation since a snapshot, up to a seq."""

    snapshot_id: UUID | None
    last_seq: int
    entries: tuple[LogEntry, ...] = ()
    #: The messages that no run had taken when they were read.
    waiting: tuple[int, ...] = ()
    size: int = 0
    kept_at: float = field(default_factory=time.monotonic)

    def with_newer(self, newer: Sequence[LogEntry]) -> KnownEntries:
        """Return these entries with newer ones, and with those that waited as they are now."""
        entries = self.entries
        if self.waiting:
            entries = tuple(entry for entry in entries if entry.seq not in self.waiting)
        entries = (*entries, *newer)
        if not _is_in_order(entries, len(entries) - len(newer)):
            entries = tuple(sorted(entries, key=_order))
        return KnownEntries(
            snapshot_id=self.snapshot_id,
            entries=entries,
            last_seq=max((self.last_seq, *(entry.seq for entry in newer))),
            waiting=tuple(entry.seq for entry in newer if _waits(entry)),
            size=self.size + sum(map(_size, newer)),
        )


_order = attrgetter("known_at", "seq")


def _is_in_order(entries: Sequence[LogEntry], seam: int) -> bool:
    return not 0 < seam < len(entries) or _order(entries[seam - 1]) < _order(entries[seam])


def _waits(entry: LogEntry) -> bool:
    return not entry.taken and entry.type == SessionEvent.Type.USER_MESSAGE


def _size(entry: LogEntry) -> int:
    return 1 + len(str(entry.payload)) // ENTRY_CHARACTERS


class RecentConversations:
    """The entries of the sessions that this process served last."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[UUID, KnownEntries] = OrderedDict()
        self._views: dict[UUID, MessageBuilder] = {}
        self._size = 0
        self._lock = threading.Lock()

    def get(self, session_id: UUID) -> KnownEntries | None:
        known = self._sessions.get(session_id)
        expired = known and time.monotonic() - known.kept_at > SECONDS_KEPT
        return None if expired else known

    def keep(self, session_id: UUID, known: KnownEntries) -> None:
        with self._lock:
            view = self._views.get(session_id)
            self._drop(session_id)
            self._sessions[session_id] = known
            if view:
                self._views[session_id] = view
            self._size += known.size
            while self._size > MOST_KEPT and self._sessions:
                self._drop(next(iter(self._sessions)))

    def _drop(self, session_id: UUID) -> None:
        self._views.pop(session_id, None)
        if known := self._sessions.pop(session_id, None):
            self._size -= known.size

    def messages(
        self,
        session_id: UUID,
        entries: Sequence[LogEntry],
        *,
        speaker_id: UUID | None = None,
        note: str = "",
    ) -> list[Message]:
        """Return the conversation of these entries, building only the messages that are new.

        `note` stands at its end, and is not kept.
        """
        view = self._views.get(session_id)
        view = view.continued(entries) if view and view.speaker_id == speaker_id else None
        view = view or build_view(entries, fence_mark(session_id), speaker_id)
        with self._lock:
            if session_id in self._sessions:
                self._views[session_id] = view
        return view.with_note(note).finished() if note else view.finished()


recent = RecentConversations()


def read_entries(
    session_id: UUID,
    limit: int,
    *,
    snapshot_id: UUID | None,
    snapshot_seq: int,
    carried: Sequence[int],
) -> Sequence[LogEntry]:
    """Return the newest entries since a snapshot, reading only those that this process lacks."""
    known = recent.get(session_id)
    if known and known.snapshot_id == snapshot_id:
        newer = read_newest(session_id, known.last_seq, MOST_NEW, carried=known.waiting)
        if (grown := remember(session_id, known, newer)) is not None:
            return newest(grown, limit, carried)
    entries = read_newest(session_id, snapshot_seq, limit, carried=carried)
    if len(entries) - len(carried) < limit:
        none = KnownEntries(snapshot_id=snapshot_id, last_seq=snapshot_seq)
        recent.keep(session_id, none.with_newer(entries))
    return entries


def remember(
    session_id: UUID, known: KnownEntries, newer: Sequence[LogEntry]
) -> Sequence[LogEntry] | None:
    """Keep newer entries with those that are known and return all; None if some may be missing."""
    if len(newer) >= MOST_NEW:
        return None
    grown = known.with_newer(newer) if newer else known
    recent.keep(session_id, grown)
    return grown.entries


def newest(entries: Sequence[LogEntry], limit: int, carried: Sequence[int]) -> Sequence[LogEntry]:
    """Return the entries with the highest seqs, and those that were carried, in their order."""
    if len(entries) - len(carried) <= limit:
        return entries
    own = sorted((entry.seq for entry in entries if entry.seq not in carried), reverse=True)
    return [entry for entry in entries if entry.seq >= own[limit - 1] or entry.seq in carried]
