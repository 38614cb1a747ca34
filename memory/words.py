"""The words of a query, and how rare each is in what the reader can see."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection

from memory.models.chunk import LANGUAGE
from memory.reader import Reader
from memory.visibility import visible

#: Rarities are measured on at most this many chunks of the reader's: enough to tell common words.
SAMPLE = 2_000
MOST_WORDS = 64
#: The rarity of a word that stands in 15 % of the chunks. Commoner ones say little.
COMMON = math.log(1 / 0.15)
#: What may stand around a word without being part of it.
EDGES = string.punctuation + "\u00ab\u00bb\u00b4\u2018\u2019\u201c\u201d\u2026"


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a query asks for."""

    #: By the word as it was written, in lower case; zero for words that mean nothing alone.
    by_word: Mapping[str, float]
    #: By the stem under which the words are indexed.
    by_lexeme: Mapping[str, float]
    #: How many chunks the reader can see, counted no further than asked for.
    chunks: int

    @property
    def lexemes(self) -> list[str]:
        return list(self.by_lexeme)

    @property
    def rare(self) -> list[str]:
        """The lexemes worth looking up in a large store: the uncommon ones, else the rarest."""
        rare = [one for one, rarity in self.by_lexeme.items() if rarity > COMMON]
        return rare or sorted(self.by_lexeme, key=lambda one: -self.by_lexeme[one])[:1]


def split_words(query: str) -> list[str]:
    """The words of a query without the punctuation around them."""
    words = (word.strip(EDGES) for word in query.split())
    return [word for word in words if word]


def weigh(query: str, reader: Reader, *, count_to: int) -> Words:
    """How rare each word of the query is among the reader's chunks, in one statement."""
    words = list(dict.fromkeys(word.lower() for word in split_words(query)))[:MOST_WORDS]
    where, params = visible(reader, "c")
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


def _words(rows: Sequence[tuple[str, str | None, int, int, int]]) -> Words:
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
    return Words(by_word=by_word, by_lexeme=by_lexeme, chunks=chunks)
