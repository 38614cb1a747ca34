"""Where in a session the searched words were said, with the words marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sessions_app.statements import rows

#: Signs that PostgreSQL puts around a found word. A text that holds them itself only marks more.
BEGIN, END = "\x02", "\x03"
SHAPE = f"StartSel={BEGIN}, StopSel={END}, MaxWords=24, MinWords=12, MaxFragments=1"
#: Characters of a message that are looked through for the place.
LOOKED_AT = 50_000
NEWEST = """
SELECT session_id, seq, ts_headline('english', left(payload ->> 'text', %s), query, %s)
  FROM (SELECT DISTINCT ON (session_id) session_id, seq, payload, query
          FROM session_messages, websearch_to_tsquery('english', %s) query
         WHERE session_id = ANY(%s) AND type IN ('user.message', 'agent.message')
           AND to_tsvector('english', coalesce(payload ->> 'text', '')) @@ query
         ORDER BY session_id, seq DESC) newest
"""


@dataclass(frozen=True, kw_only=True)
class Piece:
    text: str
    is_found: bool


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """The newest message that holds the words. Pieces are plain text: the template escapes them."""

    seq: int
    pieces: list[Piece]


def find_snippets(session_ids: Sequence[UUID], words: str) -> dict[UUID, Snippet]:
    """By session, in one query. A session that only its title matches has none."""
    found = rows(NEWEST, [LOOKED_AT, SHAPE, words, list(session_ids)])
    return {pk: Snippet(seq=seq, pieces=cut(text)) for pk, seq, text in found}


def cut(marked: str) -> list[Piece]:
    """A headline in pieces, found words apart."""
    pieces = []
    for number, part in enumerate(marked.split(BEGIN)):
        found, sign, rest = part.partition(END)
        if number and sign:
            pieces += [Piece(text=found, is_found=True), Piece(text=rest, is_found=False)]
        else:
            pieces.append(Piece(text=part.replace(END, ""), is_found=False))
    return [piece for piece in pieces if piece.text]
