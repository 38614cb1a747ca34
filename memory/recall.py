"""Searches a reader's memory, and explains the score of each hit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import structlog

from core.exceptions import Fault, Invalid
from core.throttling import SEARCH_WAIT, embedding_slot
from memory import ranking
from memory.chunking import BETWEEN, headings_in
from memory.embedders import Embedder
from memory.embeddings import chosen_embedder, is_local
from memory.ownership import Reader
from memory.periods import period_in
from memory.ranking import EDGES, QueryTerms, Ranked, Weights, split_words

EXCERPT_CHARACTERS = 600


def make_excerpt(
    text: str, query: str, *, headings: Sequence[str] = (), before: str = "", after: str = ""
) -> str:
    """Return the text that shows the match, below its headings."""
    above = [one for one in headings if one not in text]
    shown = (
        _cut_out(text, query) if len(text) > EXCERPT_CHARACTERS else _in_place(text, before, after)
    )
    return f"# {BETWEEN.join(above)}\n{shown}" if above else shown


def _cut_out(text: str, query: str) -> str:
    """Return an excerpt that begins a little before the first word of the query."""
    low = text.lower()
    stems = [word.lower().strip(EDGES)[:5] for word in split_words(query) if len(word) > 3]
    places = [place for stem in stems if (place := low.find(stem)) >= 0]
    start = max(0, min(places, default=0) - EXCERPT_CHARACTERS // 4)
    start = min(start, len(text) - EXCERPT_CHARACTERS)
    piece = text[start : start + EXCERPT_CHARACTERS].strip()
    cut_before, cut_after = start > 0, start + EXCERPT_CHARACTERS < len(text)
    return f"{'… ' if cut_before else ''}{piece}{' …' if cut_after else ''}"


def _in_place(text: str, before: str, after: str) -> str:
    """Return the text with as many whole lines before and after as fit."""
    room = (EXCERPT_CHARACTERS - len(text)) // 2
    own = text.splitlines()
    # Chunks overlap: a line that both have is shown once.
    earlier = [line for line in before.splitlines() if line not in own]
    later = [line for line in after.splitlines() if line not in own]
    shown = [*reversed(_fitting(reversed(earlier), room)), *own, *_fitting(later, room)]
    return "\n".join(shown).strip()


def _fitting(lines: Iterable[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


log = structlog.get_logger(__name__)

LONGEST_QUERY = 2_000
MOST_HITS = 50
#: A chunk that covers at least this part of the query's words is no weak match.
WEAK_COVERAGE = 0.15
#: The similarity from which a chunk is no weak match, for models that say nothing else.
WEAK_COSINE = 0.2
#: Two texts that share this part of their words count as the same.
SAME_WORDS = 0.85


REASON_WORDS = {
    "text": "its words",
    "meaning": "its meaning",
    "neighbours": "the text around it",
    "named": "its speaker",
    "dated": "its date",
    "recency": "its recency",
    "pin": "its pin",
}


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One search result. The parts add up to the score."""

    entry_id: UUID
    chunk_id: UUID
    path: str
    #: The whole chunk. The excerpt shows the match, or a short chunk with the lines around it.
    text: str
    excerpt: str
    scope: str
    trust: str
    pinned: bool
    updated_at: datetime
    score: float
    parts: dict[str, float]
    #: From 0 to 1, how well the chunk fits regardless of others: the score for unasked recall.
    strength: float
    #: Whether it fits so little that it may be here only because nothing fits better.
    weak: bool
    #: Why it was found: the names of the parts that count, the largest first.
    why: list[str]

    @property
    def reasons(self) -> str:
        """Say why it was found: "its words, its meaning and its pin"."""
        *most, last = [REASON_WORDS[name] for name in self.why]
        return f"{', '.join(most)} and {last}" if most else last


@dataclass(frozen=True, kw_only=True)
class Search:
    """The options of a search. The defaults were measured with `bench/memory.py`."""

    limit: int = 10
    weights: Weights = field(default_factory=Weights)
    exact_up_to: int = ranking.EXACT_CHUNKS
    thin: bool = True


@dataclass(frozen=True, kw_only=True)
class Found:
    """The hits of a search, and how many good ones were left out as copies of better ones."""

    hits: list[Hit]
    copies: int = 0


def recall(reader: Reader, query: str, search: Search | None = None) -> list[Hit]:
    """Return the best hits in the reader's memory, best first. Two or three statements."""
    return find(reader, query, search).hits


def find(reader: Reader, query: str, search: Search | None = None) -> Found:
    """Search like `recall`, and say what was left out."""
    search = search or Search()
    query = query.replace("\x00", " ").strip()
    if not query or len(query) > LONGEST_QUERY:
        raise Invalid(f"A search must have 1 to {LONGEST_QUERY:,} characters.")
    limit = max(1, min(search.limit, MOST_HITS))
    words = ranking.weigh(query, reader, count_to=search.exact_up_to + 1)
    if not words.chunks:
        return Found(hits=[])
    embedder = chosen_embedder(reader.workspace_id)
    ranked = ranking.rank(
        reader,
        words,
        vector=_vector(reader, embedder, query, words),
        model=embedder.name,
        weights=search.weights,
        limit=limit * 4 if search.thin else limit,
        exact_up_to=search.exact_up_to,
        period=period_in(query, datetime.now(UTC).date()),
    )
    kept = diversify(ranked, limit) if search.thin else ranked
    weak_below = getattr(embedder, "weak_below", WEAK_COSINE)
    first = ranked[:limit] if search.thin else []
    return Found(
        hits=[_hit(one, query, weak_below=weak_below) for one in kept],
        copies=len(first) - sum(1 for _ in _different(first)),
    )


def _vector(
    reader: Reader, embedder: Embedder, query: str, words: QueryTerms
) -> Sequence[float] | None:
    """Return the query's vector, or None if the model fails: words alone then decide."""
    try:
        if is_local(embedder):
            return embedder.embed_query(query, words.by_word)
        with embedding_slot(reader.workspace_id, seconds=SEARCH_WAIT):
            return embedder.embed_query(query, words.by_word)
    except Fault as fault:
        log.warning("query_not_embedded", model=embedder.name, why=fault.detail)
        return None


def diversify(ranked: Sequence[Ranked], limit: int) -> list[Ranked]:
    """Drop near-duplicates of better hits, and take at most half from one document.

    If other documents have too few hits, more of such a document fill the list.
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


#: The parts of a score, with the least that each adds to be named as a reason.
REASONS = {
    "text": 0.1,
    "meaning": 0.2,
    "neighbours": 0.1,
    "named": 0.01,
    "dated": 0.01,
    "recency": 0.03,
    "pin": 0.01,
}


def _hit(one: Ranked, query: str, *, weak_below: float) -> Hit:
    values = {name: one.words if name == "text" else getattr(one, name) for name in REASONS}
    parts = {name: round(float(value), 6) for name, value in values.items()}
    reasons = [name for name, least in REASONS.items() if parts[name] >= least]
    return Hit(
        entry_id=one.entry_id,
        chunk_id=one.chunk_id,
        path=one.path,
        text=one.text,
        excerpt=make_excerpt(
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
        parts=parts,
        strength=round(float(max(one.coverage, one.cosine)), 6),
        weak=one.coverage < WEAK_COVERAGE and one.cosine < weak_below,
        why=sorted(
            reasons or [max(parts, key=lambda name: parts[name])], key=lambda name: -parts[name]
        ),
    )
