"""Finds what a reader's memory says about something, and explains why it was found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import structlog

from config.faults import Fault, Invalid
from memory.embedding import chosen_embedder
from memory.ranking import EXACT_CHUNKS, Ranked, Weights, rank
from memory.reader import Reader
from memory.words import EDGES, Words, split_words, weigh

log = structlog.get_logger(__name__)

LONGEST_QUERY = 2_000
MOST_HITS = 50
EXCERPT_CHARACTERS = 600
#: A chunk that shares no word with the query must mean at least so much of it.
LEAST_COSINE = 0.2
#: Two texts with this share of their words in common say the same.
SAME_WORDS = 0.85
PER_ENTRY = 2


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One thing that was recalled. The parts add up to the score."""

    entry_id: UUID
    chunk_id: UUID
    path: str
    #: The whole chunk; the excerpt is what of it shows the match.
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
    per_entry: int = PER_ENTRY
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
    kept = thinned(fitting, search.per_entry) if search.thin else fitting
    return [_hit(one, query) for one in kept[:limit]]


def _meaning(reader: Reader, query: str, words: Words) -> tuple[Sequence[float] | None, str]:
    """The query's vector. A model out of reach leaves the search to the words."""
    embedder = chosen_embedder(reader.workspace_id)
    try:
        return embedder.embed_query(query, words.by_word), embedder.name
    except Fault as fault:
        log.warning("query_not_embedded", model=embedder.name, why=fault.detail)
        return None, embedder.name


def thinned(ranked: Sequence[Ranked], per_entry: int) -> list[Ranked]:
    """Without what says the same as something better, and not all from one document."""
    kept: list[Ranked] = []
    sets: list[set[str]] = []
    of_entry: Counter[UUID] = Counter()
    for one in ranked:
        words = set(re.findall(r"\w+", one.text.lower()))
        if of_entry[one.entry_id] >= per_entry or any(_same(words, other) for other in sets):
            continue
        of_entry[one.entry_id] += 1
        kept.append(one)
        sets.append(words)
    return kept


def _same(words: set[str], other: set[str]) -> bool:
    return len(words & other) >= SAME_WORDS * max(len(words | other), 1)


def excerpt_of(text: str, query: str) -> str:
    """What of the text shows the match: from a little before the first word that was asked for."""
    if len(text) <= EXCERPT_CHARACTERS:
        return text
    low = text.lower()
    stems = [word.lower().strip(EDGES)[:5] for word in split_words(query) if len(word) > 3]
    places = [place for stem in stems if (place := low.find(stem)) >= 0]
    start = max(0, min(places, default=0) - EXCERPT_CHARACTERS // 4)
    start = min(start, len(text) - EXCERPT_CHARACTERS)
    piece = text[start : start + EXCERPT_CHARACTERS].strip()
    before, after = start > 0, start + EXCERPT_CHARACTERS < len(text)
    return f"{'… ' if before else ''}{piece}{' …' if after else ''}"


def _hit(one: Ranked, query: str) -> Hit:
    names = ("meaning", "neighbours", "named", "recency", "pin")
    parts = {"text": one.words, **{name: getattr(one, name) for name in names}}
    return Hit(
        entry_id=one.entry_id,
        chunk_id=one.chunk_id,
        path=one.path,
        text=one.text,
        excerpt=excerpt_of(one.text, query),
        scope=one.scope,
        trust=one.trust,
        pinned=one.pinned,
        updated_at=one.updated_at,
        score=round(float(one.score), 6),
        parts={name: round(float(value), 6) for name, value in parts.items()},
        strength=round(float(max(one.coverage, one.cosine)), 6),
    )
