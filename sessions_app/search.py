"""Finds sessions by words in their titles and messages, with excerpts, in any order of a list.

Titles match in any part, messages by whole words in the English stems of PostgreSQL. Texts of one
or two characters are looked for in titles only: as words they mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.postgres.search import SearchQuery, SearchVector
from django.db import connection
from django.db.models import Q
from django.db.models.fields.json import KT

from sessions_app.log.transcript import MESSAGE_TYPES
from sessions_app.models import Session, SessionEvent
from sessions_app.models.session import SessionQuerySet

MIN_WORD_LENGTH = 3
#: Sessions that are looked through first, and for a word that is neither common nor rare. Words that
#: are common fill a page from these.
FIRST_SESSIONS, MORE_SESSIONS = 100, 2_000
#: Titles and messages that are read for a rare word. They are sorted without a look at other sessions.
RARE_MATCHES = 1_000
TEXT_VECTOR = SearchVector(KT("payload__text"), config="english")
#: The seq of the newest message with the words, of each session that has one.
NEWEST_MATCHES = """
SELECT session_id, max(seq) FROM session_messages
 WHERE session_id = ANY(%s) AND type IN ('user.message', 'agent.message')
   AND to_tsvector('english', coalesce(payload ->> 'text', '')) @@ websearch_to_tsquery('english', %s)
 GROUP BY session_id
"""
#: Some sessions with the words in their title or messages, by index. The planner takes half of a
#: percent of the log for any word, so a join with the sessions here would read all of them.
RARE_SESSIONS = """
(SELECT id, NULL::bigint AS seq FROM agent_sessions
  WHERE title_grams(title) @> title_grams(%(text)s) AND strpos(upper(title), upper(%(text)s)) > 0
  LIMIT %(most)s)
UNION ALL
(SELECT session_id, seq FROM session_messages
  WHERE %(has_words)s AND type IN ('user.message', 'agent.message')
    AND to_tsvector('english', coalesce(payload ->> 'text', '')) @@ websearch_to_tsquery('english', %(text)s)
  LIMIT %(most)s)
"""
#: Marks that PostgreSQL puts around a found word. A text with these marks only highlights more.
MARK_START, MARK_END = "\x02", "\x03"
HEADLINE_OPTIONS = (
    f"StartSel={MARK_START}, StopSel={MARK_END}, MaxWords=24, MinWords=12, MaxFragments=1"
)
#: Characters of a message that are searched for the headline.
HEADLINE_CHARACTERS = 50_000
FIND_HEADLINES = """
SELECT session_id, ts_headline('english', left(payload ->> 'text', %s),
                               websearch_to_tsquery('english', %s), %s)
  FROM session_messages
  JOIN unnest(%s::uuid[], %s::bigint[]) AS found (id, seq) ON session_id = found.id
   AND session_messages.seq = found.seq
"""

#: The sessions that were found, in order, each with the seq of its newest message that matches.
Matches = Mapping[UUID, int | None]


def find_matches(ordered: SessionQuerySet, text: str, *, limit: int) -> Matches:
    """Return the first sessions of an ordered list whose title or messages contain the text.

    A word that is in most messages would lead to most of the log. So the first sessions of the list
    are looked through before all of them: they are enough for such a word, and only for such a word.
    """
    found, is_enough = _look_through(ordered, text, FIRST_SESSIONS, limit)
    if is_enough:
        return found
    rare = _rare_matches(text)
    if rare is not None:
        found_ids = ordered.filter(pk__in=list(rare)).values_list("pk", flat=True)[:limit]
        return {pk: rare[pk] or None for pk in found_ids}
    found, is_enough = _look_through(ordered, text, MORE_SESSIONS, limit)
    if is_enough:
        return found
    ids = list(_matching(ordered, text).values_list("pk", flat=True)[:limit])
    seqs = _newest_matches(ids, text)
    return {pk: seqs.get(pk) for pk in ids}


def _look_through(
    ordered: SessionQuerySet, text: str, count: int, limit: int
) -> tuple[Matches, bool]:
    """Return the matches among the first sessions, and whether no others are needed."""
    marked = ordered.annotate(is_titled=Q(title__icontains=text))
    first = list(marked.values_list("pk", "is_titled")[:count])
    seqs = _newest_matches((pk for pk, _ in first), text)
    found = [pk for pk, is_titled in first if is_titled or pk in seqs][:limit]
    return {pk: seqs.get(pk) for pk in found}, len(found) == limit or len(first) < count


def _rare_matches(text: str) -> dict[UUID, int] | None:
    """Return every session with the text and the seq of its newest match, or None if these are many."""
    facts = {"text": text, "most": RARE_MATCHES, "has_words": len(text) >= MIN_WORD_LENGTH}
    found = _rows(RARE_SESSIONS, facts)
    newest: dict[UUID, int] = {}
    for pk, seq in found:
        newest[pk] = max(newest.get(pk, 0), seq or 0)
    return newest if len(found) < RARE_MATCHES else None


def _matching(sessions: SessionQuerySet, text: str) -> SessionQuerySet:
    """Return those of the sessions that match, of words that are neither common nor rare."""
    titled = Session.objects.titled(text).order_by().values("pk")
    if len(text) < MIN_WORD_LENGTH:
        return sessions.filter(pk__in=titled)
    query = SearchQuery(text, search_type="websearch", config="english")
    messages = SessionEvent.objects.filter(type__in=MESSAGE_TYPES).annotate(words=TEXT_VECTOR)
    written = messages.filter(words=query).order_by().values("session_id")
    return sessions.filter(pk__in=titled.union(written))


def _newest_matches(session_ids: Iterable[UUID], text: str) -> dict[UUID, int]:
    ids = list(session_ids)
    if not ids or len(text) < MIN_WORD_LENGTH:
        return {}
    return dict(_rows(NEWEST_MATCHES, [ids, text]))


def _rows(query: str, params: list[Any] | dict[str, Any]) -> list[tuple[Any, ...]]:
    """Run a statement that is planned for these very words: how common they are decides the plan."""
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        return cursor.fetchall()


@dataclass(frozen=True, kw_only=True)
class Piece:
    text: str
    is_found: bool


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """An excerpt of the newest message with the words. The template escapes its pieces."""

    seq: int
    pieces: list[Piece]


def find_snippets(matches: Matches, text: str) -> dict[UUID, Snippet]:
    """Return snippets by session, in one query. A session that matches only by title has none."""
    found = {pk: seq for pk, seq in matches.items() if seq}
    if not found:
        return {}
    params = [HEADLINE_CHARACTERS, text, HEADLINE_OPTIONS, list(found), list(found.values())]
    headlines = _rows(FIND_HEADLINES, params)
    return {pk: Snippet(seq=found[pk], pieces=_split_marks(line)) for pk, line in headlines}


def _split_marks(headline: str) -> list[Piece]:
    """Split a headline into found words and the text between them."""
    pieces = []
    for number, part in enumerate(headline.split(MARK_START)):
        found, mark, rest = part.partition(MARK_END)
        if number and mark:
            pieces += [Piece(text=found, is_found=True), Piece(text=rest, is_found=False)]
        else:
            pieces.append(Piece(text=part.replace(MARK_END, ""), is_found=False))
    return [piece for piece in pieces if piece.text]
