"""Ranks the chunks that a reader may see, by words and by meaning, in one statement.

All chunks of a small store are scored. In a large store, the best by words (from the word index) and
the best by meaning (from the HNSW index, scanned until enough rows are the reader's) are scored.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from memory.models import LANGUAGE
from memory.ownership import Reader, visible_sql
from memory.periods import Period

#: Rarity is measured on at most this many of the reader's chunks: enough to find common words.
SAMPLE = 2_000
MOST_WORDS = 64
#: The rarity of a word in 15 % of the chunks. Commoner words say little.
COMMON = math.log(1 / 0.15)
#: Characters around a word that are not part of it.
EDGES = string.punctuation + "\u00ab\u00bb\u00b4\u2018\u2019\u201c\u201d\u2026"


@dataclass(frozen=True, kw_only=True)
class QueryTerms:
    """The words of a query, weighed by rarity."""

    #: By the word as written, in lower case; zero for stop words.
    by_word: Mapping[str, float]
    #: By the stem under which the words are indexed.
    by_lexeme: Mapping[str, float]
    #: How many chunks the reader can see, up to a limit.
    chunks: int

    @property
    def lexemes(self) -> list[str]:
        return list(self.by_lexeme)

    @property
    def rare(self) -> list[str]:
        """Return the lexemes to look up in a large store: the uncommon ones, or else the rarest."""
        rare = [one for one, rarity in self.by_lexeme.items() if rarity > COMMON]
        return rare or sorted(self.by_lexeme, key=lambda one: -self.by_lexeme[one])[:1]


def split_words(query: str) -> list[str]:
    """Split a query into words without the punctuation around them."""
    words = (word.strip(EDGES) for word in query.split())
    return [word for word in words if word]


def weigh(query: str, reader: Reader, *, count_to: int) -> QueryTerms:
    """Measure how rare each word of the query is among the reader's chunks, in one statement."""
    words = list(dict.fromkeys(word.lower() for word in split_words(query)))[:MOST_WORDS]
    where, params = visible_sql(reader, "c")
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH seen AS MATERIALIZED (
              SELECT c.tsv || ''::tsvector AS tsv FROM memory_memorychunk c WHERE {where} LIMIT %s
            ), size AS (
              SELECT count(*) AS n FROM
                (SELECT 1 FROM memory_memorychunk c WHERE {where} LIMIT %s) AS counted
            ), asked AS (
              SELECT w.word, l.lexeme FROM unnest(%s::text[]) AS w(word)
              LEFT JOIN LATERAL unnest(tsvector_to_array(to_tsvector('{LANGUAGE}', w.word)))
                AS l(lexeme) ON true
            )
            SELECT asked.word, asked.lexeme, (SELECT n FROM size), (SELECT count(*) FROM seen),
                   (SELECT count(*) FROM seen
                    WHERE tsv @@ (quote_literal(asked.lexeme) || ':AB')::tsquery)
            FROM asked
            """,  # noqa: S608 - `where` is made of constants only
            [*params, SAMPLE, *params, count_to, words],
        )
        return _words(cursor.fetchall())


def _words(rows: Sequence[tuple[str, str | None, int, int, int]]) -> QueryTerms:
    by_word: dict[str, float] = {}
    by_lexeme: dict[str, float] = {}
    chunks = 0
    for word, lexeme, count, sampled, found in rows:
        chunks = count
        rarity = math.log((sampled + 1) / (found + 0.5)) if lexeme is not None else 0.0
        rarity = max(rarity, 0.05) if lexeme is not None else 0.0
        by_word[word] = max(rarity, by_word.get(word, 0.0))
        if lexeme is not None:
            by_lexeme[lexeme] = rarity
    return QueryTerms(by_word=by_word, by_lexeme=by_lexeme, chunks=chunks)


#: With at most so many visible chunks all are scored; with more, indexes choose which.
EXACT_CHUNKS = 5_000
#: How many chunks each index contributes in a large store.
CANDIDATES = 500
#: How wide and how far the vector index is scanned for rows of the reader's.
EF_SEARCH = 400
SCAN_TUPLES = 60_000


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weight of each part of a score."""

    text: float = 0.5
    meaning: float = 0.4
    #: Applies to the mean score of the chunks before and after.
    neighbours: float = 0.3
    #: Applies to the score of the best chunk of the same document; part of `neighbours` in a hit.
    document: float = 0.2
    #: Added when the query names the speaker of the chunk.
    named: float = 0.15
    #: Added when the query names a time and the chunk is of that time.
    dated: float = 0.3
    recency: float = 0.05
    half_life_days: float = 30.0
    pin: float = 0.05
    #: A word in a neighbouring chunk, relative to one in the chunk; `ts_rank`'s weight D.
    beside: float = 0.35
    label: float = 0.4
    #: The best coverage from which words and neighbours count in full. If no chunk reaches it, the
    #: question is in other words than the notes, and what matches does so by chance.
    confident: float = 0.35


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A chunk with the parts of its score. `coverage` and `cosine` are not relative to others."""

    chunk_id: Any
    entry_id: Any
    path: str
    text: str
    label: str
    #: The texts of the chunks before and after.
    before: str
    after: str
    scope: str
    trust: str
    pinned: bool
    updated_at: Any
    coverage: float
    cosine: float
    words: float
    meaning: float
    neighbours: float
    named: float
    dated: float
    recency: float
    pin: float
    score: float


def rank(
    reader: Reader,
    words: QueryTerms,
    *,
    vector: Sequence[float] | None,
    model: str,
    weights: Weights,
    limit: int,
    exact_up_to: int = EXACT_CHUNKS,
    period: Period | None = None,
) -> list[Ranked]:
    """Return the best chunks, best first."""
    meant = f"[{','.join(map(str, vector))}]" if vector is not None else None
    small = words.chunks <= exact_up_to
    from_where, params = _all_of(reader) if small else _best_of(reader, words, meant, model, vector)
    given: dict[str, Any] = {
        "lexemes": words.lexemes,
        "rarities": list(words.by_lexeme.values()),
        "ranks": [float(weights.beside), 0.1, float(weights.label), 1.0],
        "meant": meant,
        "model": model,
        "w_text": weights.text,
        "w_meaning": weights.meaning,
        "w_neighbours": weights.neighbours,
        "w_document": weights.document,
        "w_named": weights.named,
        "w_dated": weights.dated,
        "first": period.first if period else None,
        "last": period.last if period else None,
        "confident": weights.confident,
        "w_recency": weights.recency,
        "half_life": weights.half_life_days * 86_400,
        "w_pin": weights.pin,
        "most": limit,
    }
    statement = STATEMENT.format(from_where=from_where)
    with _scan_far() if not small else nullcontext(), connection.cursor() as cursor:
        cursor.execute(statement, {**given, **params})
        return [Ranked(**dict(zip(COLUMNS, row, strict=True))) for row in cursor.fetchall()]


@contextmanager
def _scan_far() -> Iterator[None]:
    """Let this transaction scan the vector index until enough rows are the reader's."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('hnsw.ef_search', %s, true),"
                " set_config('hnsw.iterative_scan', 'relaxed_order', true),"
                " set_config('hnsw.max_scan_tuples', %s, true)",
                [str(EF_SEARCH), str(SCAN_TUPLES)],
            )
        yield


def _named(where: str, params: Sequence[Any], prefix: str) -> tuple[str, dict[str, Any]]:
    """Give the condition named parameters, so that it can be combined with others."""
    for number in range(len(params)):
        where = where.replace("%s", f"%({prefix}{number})s", 1)
    return where, {f"{prefix}{number}": value for number, value in enumerate(params)}


def _all_of(reader: Reader) -> tuple[str, dict[str, Any]]:
    where, params = _named(*visible_sql(reader, "c"), prefix="own")
    return f"memory_memorychunk c {VECTORS} WHERE {where}", params


def _best_of(
    reader: Reader, words: QueryTerms, meant: str | None, model: str, vector: Sequence[float] | None
) -> tuple[str, dict[str, Any]]:
    where, params = _named(*visible_sql(reader, "c"), prefix="own")
    anything = " | ".join(
        "'" + one.replace("'", "''").replace("\\", "\\\\") + "'" for one in words.rare
    )
    params |= {"anything": anything, "candidates": CANDIDATES}
    legs = [
        (
            f"(SELECT c.id FROM memory_memorychunk c WHERE {where}"  # noqa: S608
            " AND c.tsv @@ %(anything)s::tsquery"
            " ORDER BY ts_rank(%(ranks)s::float4[], c.tsv, %(anything)s::tsquery) DESC, c.id"
            " LIMIT %(candidates)s)"
        )
    ]
    if vector is not None:
        size = len(vector)
        own, more = _named(*visible_sql(reader, "v"), prefix="near")
        params |= more
        # The partial index is defined on this cast and model.
        legs.append(
            f"(SELECT v.chunk_id FROM memory_memoryvector v WHERE v.model = %(model)s AND {own}"  # noqa: S608
            f" ORDER BY v.vector::vector({size}) <=> %(meant)s::vector({size})"
            " LIMIT %(candidates)s)"
        )
    pool = " UNION ".join(legs)
    return f"({pool}) AS pool JOIN memory_memorychunk c ON c.id = pool.id {VECTORS}", params


COLUMNS = tuple(Ranked.__dataclass_fields__)

VECTORS = "LEFT JOIN memory_memoryvector v ON v.chunk_id = c.id AND v.model = %(model)s"

#: Weights are cast: PostgreSQL reads `0.05` as numeric, whose powers would dominate the cost.
STATEMENT = r"""
WITH asked AS MATERIALIZED (
  SELECT quote_literal(lexeme)::tsquery AS word,
         (quote_literal(lexeme) || ':C')::tsquery AS speaker,
         rarity, rarity / sum(rarity) OVER () AS share
  FROM unnest(%(lexemes)s::text[], %(rarities)s::float8[]) AS a(lexeme, rarity)
), found AS MATERIALIZED (
  -- The empty vector appended unpacks a stored one once, and not for every word.
  SELECT c.id, c.entry_id, c.position, c.tsv || ''::tsvector AS tsv,
         greatest(0, 1 - (v.vector <=> %(meant)s::vector)) AS cosine
  FROM {from_where}
), scored AS MATERIALIZED (
  SELECT f.id, f.entry_id, f.position, coalesce(f.cosine, 0) AS cosine,
         coalesce(t.coverage, 0) AS coverage, coalesce(t.named, false) AS named
  FROM found f LEFT JOIN LATERAL (
    SELECT sum(a.share * ts_rank(%(ranks)s::float4[], f.tsv, a.word)) AS coverage,
           bool_or(f.tsv @@ a.speaker) AS named
    FROM asked a WHERE f.tsv @@ a.word
  ) t ON true
), trusted AS (
  SELECT least(1, max(coverage) / %(confident)s::float8) AS words,
         nullif(max(coverage), 0) AS coverage, nullif(max(cosine), 0) AS cosine
  FROM scored
), fused AS (
  SELECT s.*,
         coalesce(%(w_text)s::float8 * s.coverage / t.coverage * power(t.words, 4), 0) AS words,
         coalesce(%(w_meaning)s::float8 * s.cosine / t.cosine, 0) AS meaning,
         t.words AS trust
  FROM scored s CROSS JOIN trusted t
), smoothed AS (
  SELECT f.*, trust * (
    %(w_neighbours)s::float8 / 2 * (
      coalesce(lag(words + meaning) OVER place, 0) + coalesce(lead(words + meaning) OVER place, 0)
    ) + %(w_document)s::float8 * max(words + meaning) OVER (PARTITION BY entry_id)
  ) AS neighbours
  FROM fused f WINDOW place AS (PARTITION BY entry_id ORDER BY position)
), parts AS (
  SELECT s.id, s.entry_id, s.coverage, s.cosine, s.words, s.meaning, s.neighbours,
         CASE WHEN s.named THEN %(w_named)s::float8 ELSE 0 END AS named,
         -- The day that the path names, as that of a daily log does, else of the last change.
         CASE WHEN coalesce(substring(e.path FROM '\d{{4}}-\d{{2}}-\d{{2}}'),
                            to_char(e.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')) COLLATE "C"
                   BETWEEN %(first)s::text AND %(last)s::text
              THEN %(w_dated)s::float8 ELSE 0 END AS dated,
         %(w_recency)s::float8 * power(0.5::float8,
           greatest(0, extract(epoch FROM now() - e.updated_at)::float8)
           / %(half_life)s::float8) AS recency,
         CASE WHEN e.pinned THEN %(w_pin)s::float8 ELSE 0 END AS pin,
         e.path, e.scope, e.trust, e.pinned, e.updated_at
  FROM smoothed s JOIN agent_memory_entries e ON e.id = s.entry_id
  WHERE s.coverage > 0 OR s.cosine > 0
), best AS (
  SELECT p.*, words + meaning + neighbours + named + dated + recency + pin AS score
  FROM parts p ORDER BY score DESC, id LIMIT %(most)s
)
SELECT b.id, b.entry_id, b.path, c.text, c.label,
       coalesce(previous.text, ''), coalesce(next.text, ''), b.scope, b.trust, b.pinned,
       b.updated_at, b.coverage, b.cosine, b.words, b.meaning, b.neighbours, b.named, b.dated,
       b.recency, b.pin, b.score
FROM best b JOIN memory_memorychunk c ON c.id = b.id
LEFT JOIN memory_memorychunk previous
  ON previous.entry_id = c.entry_id AND previous.position = c.position - 1
LEFT JOIN memory_memorychunk next
  ON next.entry_id = c.entry_id AND next.position = c.position + 1
ORDER BY b.score DESC, b.id
"""
