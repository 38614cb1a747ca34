"""The statement that ranks what a reader may see, by words and by meaning.

A small store is scored whole. From a large one, the best by words (over the index of words) and
the best by meaning (over the vectors' HNSW index, scanned on until enough rows are the reader's)
are taken first, and those are scored in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from memory.reader import Reader
from memory.visibility import visible
from memory.words import Words

#: Up to so many visible chunks all are scored; above, indexes choose which.
EXACT_CHUNKS = 5_000
#: How many each index brings from a large store.
CANDIDATES = 500
#: How wide and how far the vectors' index is scanned for rows that are the reader's.
EF_SEARCH = 400
SCAN_TUPLES = 60_000


@dataclass(frozen=True, kw_only=True)
class Weights:
    """How much each part of a score counts."""

    text: float = 0.5
    meaning: float = 0.3
    #: Of the mean score of the chunks before and after.
    neighbours: float = 0.2
    #: When the query names who speaks in the chunk.
    named: float = 0.1
    recency: float = 0.05
    half_life_days: float = 30.0
    pin: float = 0.05
    #: Of a word in the text beside a chunk, against one in the chunk; `ts_rank`'s weight D.
    beside: float = 0.2
    label: float = 0.4


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One chunk with the parts of its score. `coverage` and `cosine` are not relative to others."""

    chunk_id: Any
    entry_id: Any
    path: str
    text: str
    label: str
    #: The texts of the chunks beside it.
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
    recency: float
    pin: float
    score: float


def rank(
    reader: Reader,
    words: Words,
    *,
    vector: Sequence[float] | None,
    model: str,
    weights: Weights,
    limit: int,
    exact_up_to: int = EXACT_CHUNKS,
) -> list[Ranked]:
    """The best chunks, best first."""
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
        "w_named": weights.named,
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
    """Let the vectors' index look on until enough rows are the reader's, for this transaction."""
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
    """The condition with named parameters, to stand in one statement with others."""
    for number in range(len(params)):
        where = where.replace("%s", f"%({prefix}{number})s", 1)
    return where, {f"{prefix}{number}": value for number, value in enumerate(params)}


def _all_of(reader: Reader) -> tuple[str, dict[str, Any]]:
    where, params = _named(*visible(reader, "c"), prefix="own")
    return f"memory_memorychunk c {VECTORS} WHERE {where}", params


def _best_of(
    reader: Reader, words: Words, meant: str | None, model: str, vector: Sequence[float] | None
) -> tuple[str, dict[str, Any]]:
    where, params = _named(*visible(reader, "c"), prefix="own")
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
        own, more = _named(*visible(reader, "v"), prefix="near")
        params |= more
        # The cast and the model are what the partial index is made on.
        legs.append(
            f"(SELECT v.chunk_id FROM memory_memoryvector v WHERE v.model = %(model)s AND {own}"  # noqa: S608
            f" ORDER BY v.vector::vector({size}) <=> %(meant)s::vector({size})"
            " LIMIT %(candidates)s)"
        )
    pool = " UNION ".join(legs)
    return f"({pool}) AS pool JOIN memory_memorychunk c ON c.id = pool.id {VECTORS}", params


COLUMNS = tuple(Ranked.__dataclass_fields__)

VECTORS = "LEFT JOIN memory_memoryvector v ON v.chunk_id = c.id AND v.model = %(model)s"

#: Weights are cast, as PostgreSQL reads `0.05` as an exact number, whose powers cost most of a search.
STATEMENT = """
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
), fused AS (
  SELECT s.*,
         coalesce(%(w_text)s::float8 * coverage / nullif(max(coverage) OVER (), 0), 0) AS words,
         coalesce(%(w_meaning)s::float8 * cosine / nullif(max(cosine) OVER (), 0), 0) AS meaning
  FROM scored s
), smoothed AS (
  SELECT f.*, %(w_neighbours)s::float8 / 2 * (
    coalesce(lag(words + meaning) OVER place, 0) + coalesce(lead(words + meaning) OVER place, 0)
  ) AS neighbours
  FROM fused f WINDOW place AS (PARTITION BY entry_id ORDER BY position)
), parts AS (
  SELECT s.id, s.entry_id, s.coverage, s.cosine, s.words, s.meaning, s.neighbours,
         CASE WHEN s.named THEN %(w_named)s::float8 ELSE 0 END AS named,
         %(w_recency)s::float8 * power(0.5::float8,
           greatest(0, extract(epoch FROM now() - e.updated_at)::float8)
           / %(half_life)s::float8) AS recency,
         CASE WHEN e.pinned THEN %(w_pin)s::float8 ELSE 0 END AS pin,
         e.path, e.scope, e.trust, e.pinned, e.updated_at
  FROM smoothed s JOIN agent_memory_entries e ON e.id = s.entry_id
  WHERE s.coverage > 0 OR s.cosine > 0
), best AS (
  SELECT p.*, words + meaning + neighbours + named + recency + pin AS score
  FROM parts p ORDER BY score DESC, id LIMIT %(most)s
)
SELECT b.id, b.entry_id, b.path, c.text, c.label,
       coalesce(previous.text, ''), coalesce(next.text, ''), b.scope, b.trust, b.pinned,
       b.updated_at, b.coverage, b.cosine, b.words, b.meaning, b.neighbours, b.named, b.recency,
       b.pin, b.score
FROM best b JOIN memory_memorychunk c ON c.id = b.id
LEFT JOIN memory_memorychunk previous
  ON previous.entry_id = c.entry_id AND previous.position = c.position - 1
LEFT JOIN memory_memorychunk next
  ON next.entry_id = c.entry_id AND next.position = c.position + 1
ORDER BY b.score DESC, b.id
"""
