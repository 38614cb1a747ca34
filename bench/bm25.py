"""Ranks by plain BM25 over stemmed words, as a baseline for recall."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

K1, B = 1.2, 0.75


class BM25:
    def __init__(self, texts: Mapping[Any, str]) -> None:
        self._words = {key: Counter(stems(text)) for key, text in texts.items()}
        self._length = {key: sum(words.values()) for key, words in self._words.items()}
        self._mean = sum(self._length.values()) / max(len(texts), 1)
        self._having = Counter(word for words in self._words.values() for word in words)

    def rank(self, query: str, limit: int = 10) -> list[Any]:
        words = set(stems(query))
        scores = {key: self._score(key, words) for key in self._words}
        best = sorted(scores, key=lambda key: -scores[key])
        return [key for key in best[:limit] if scores[key] > 0]

    def _score(self, key: Any, words: set[str]) -> float:
        count = len(self._words)
        total = 0.0
        for word in words & self._words[key].keys():
            having, times = self._having[word], self._words[key][word]
            rarity = math.log(1 + (count - having + 0.5) / (having + 0.5))
            long = 1 - B + B * self._length[key] / self._mean
            total += rarity * times * (K1 + 1) / (times + K1 * long)
        return total


def stems(text: str) -> list[str]:
    """Return the words as PostgreSQL stems them, without stop words."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector('english', %s))", [text]
        )
        return [lexeme for lexeme, times in cursor.fetchall() for _ in range(times)]
