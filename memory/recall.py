"""Finds what a reader's memory says about something, and explains why it was found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import structlog

from config.faults import Fault, Invalid
from memory.chunking import headings_in
from memory.embedding import chosen_embedder
from memory.excerpts import excerpt_of
from memory.ranking import EXACT_CHUNKS, Ranked, Weights, rank
from memory.reader import Reader
from memory.words import Words, weigh

log = structlog.get_logger(__name__)

LONGEST_QUERY = 2_000
MOST_HITS = 50
#: A chunk that shares no word with the query must mean at least so much of it.
LEAST_COSINE = 0.2
#: Two texts with this share of their words in common say the same.
SAME_WORDS = 0.85


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One thing that was recalled. The parts add up to the score."""

    entry_id: UUID
    chunk_id: UUID
    path: str
    #: The whole chunk; the excerpt shows the match, or a short chunk with what is beside it.
    text: str
    excerpt: str
    scope: str
    trust: str
    pinned: bool
    updated_at: datetime
    score: float
    parts: dict[str, float]
    #: From 0 to 1, how well it fits by itself: what to look at before showing it unasked.
    strength: float


@dataclass(frozen=True, kw_only=True)
class Search:
    """How to search. The defaults were measured; `bench/memory.py` measures others."""

    limit: int = 10
    weights: Weights = field(default_factory=Weights)
    exact_up_to: int = EXACT_CHUNKS
    thin: bool = True


def recall(reader: Reader, query: str, search: Search | None = None) -> list[Hit]:
    """The best that the reader's memory holds on this, best first. Two or three statements."""
    search = search or Search()
    query = query.replace("\x00", " ").strip()
    if not query or len(query) > LONGEST_QUERY:
        raise Invalid(f"A search has 1 to {LONGEST_QUERY:,} characters.")
    limit = max(1, min(search.limit, MOST_HITS))
    words = weigh(query, reader, count_to=search.exact_up_to + 1)
    if not words.chunks:
        return []
    vector, model = _meaning(reader, query, words)
    ranked = rank(
        reader,
        words,
        vector=vector,
        model=model,
        weights=search.weights,
        limit=limit * 4 if search.thin else limit,
        exact_up_to=search.exact_up_to,
    )
    fitting = [one for one in ranked if one.coverage > 0 or one.cosine >= LEAST_COSINE]
    kept = thinned(fitting, limit) if search.thin else fitting
    return [_hit(one, query) for one in kept]


def _meaning(reader: Reader, query: str, words: Words) -> tuple[Sequence[float] | None, str]:
    """The query's vector. A model out of reach leaves the search to the words."""
    embedder = chosen_embedder(reader.workspace_id)
    try:
        return embedder.embed_query(query, words.by_word), embedder.name
    except Fault as fault:
        log.warning("query_not_embedded", model=embedder.name, why=fault.detail)
        return None, embedder.name


def thinned(ranked: Sequence[Ranked], limit: int) -> list[Ranked]:
    """Without what says the same as something better, and at most half from one document.

    When others have too little to say, the rest of such a document fills the list.
    """
    per_entry = (limit + 1) // 2
    first: list[Ranked] = []
    more: list[Ranked] = []
    of_entry: Counter[UUID] = Counter()
    for one in _different(ranked):
        of_entry[one.entry_id] += 1
        (first if of_entry[one.entry_id] <= per_entry else more).append(one)
    kept = {one.chunk_id for one in (first + more)[:limit]}
    return [one for one in ranked if one.chunk_id in kept]


def _different(ranked: Sequence[Ranked]) -> Iterator[Ranked]:
    sets: list[set[str]] = []
    for one in ranked:
        words = set(re.findall(r"\w+", one.text.lower()))
        if not any(_same(words, other) for other in sets):
            sets.append(words)
            yield one


def _same(words: set[str], other: set[str]) -> bool:
    return len(words & other) >= SAME_WORDS * max(len(words | other), 1)


def _hit(one: Ranked, query: str) -> Hit:
    names = ("meaning", "neighbours", "named", "recency", "pin")
    parts = {"text": one.words, **{name: getattr(one, name) for name in names}}
    return Hit(
        entry_id=one.entry_id,
        chunk_id=one.chunk_id,
        path=one.path,
        text=one.text,
        excerpt=excerpt_of(
            one.text,
            query,
            headings=headings_in(one.label),
            before=one.before,
            after=one.after,
        ),
        scope=one.scope,
        trust=one.trust,
        pinned=one.pinned,
        updated_at=one.updated_at,
        score=round(float(one.score), 6),
        parts={name: round(float(value), 6) for name, value in parts.items()},
        strength=round(float(max(one.coverage, one.cosine)), 6),
    )
