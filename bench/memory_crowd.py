"""Fills a workspace with many documents, whose words are distributed as in any language."""

from __future__ import annotations

import random
from itertools import islice
from uuid import UUID

BATCH = 2_000
WORDS_PER_TEXT = (8, 30)


class Writer:
    """Writes sentences. A few words are very common and most are rare, as in any language."""

    def __init__(self, seed: int = 7) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - texts, not secrets
        from memory.embedders import wordllama_model

        vocabulary = wordllama_model().tokenizer.get_vocab()
        words = [word[1:] for word in vocabulary if word.startswith("▁") and len(word) > 4]
        self._words = sorted(word for word in words if word.isascii() and word.isalpha())
        self._chance.shuffle(self._words)
        self._weights = [1 / (place + 3) for place in range(len(self._words))]

    def text(self) -> str:
        count = self._chance.randint(*WORDS_PER_TEXT)
        return " ".join(self._chance.choices(self._words, self._weights, k=count))

    def question(self, text: str) -> str:
        """Return some words of a text, as a person who half remembers it would ask."""
        words = text.split()
        return "what about " + " ".join(self._chance.sample(words, min(4, len(words))))


def fill(
    workspace_id: UUID, agent_ids: list[UUID], count: int, *, writer: Writer
) -> dict[UUID, str]:
    """Store this many one-chunk documents, spread over the agents. Return their texts."""
    from django.db import connection

    from core.ids import uuid7
    from memory.embedders import WordLlamaEmbedder
    from memory.models import EmbeddingChoice, MemoryChunk, MemoryEntry, MemoryVector

    # The sentence model would take half an hour for 100,000 texts.
    embedder = WordLlamaEmbedder()
    EmbeddingChoice.objects.update_or_create(
        workspace_id=workspace_id, defaults={"model": embedder.name}
    )
    numbers = iter(range(count))
    texts: dict[UUID, str] = {}
    while batch := list(islice(numbers, BATCH)):
        rows = [(agent_ids[number % len(agent_ids)], writer.text()) for number in batch]
        entries = [
            MemoryEntry(
                workspace_id=workspace_id,
                scope="agent",
                agent_id=agent_id,
                owner_id=agent_id,
                path=f"notes/{uuid7()}.md",
                hash="",
            )
            for agent_id, _ in rows
        ]
        MemoryEntry.objects.bulk_create(entries)
        shared = [
            {"workspace_id": workspace_id, "owner_id": entry.owner_id, "scope": "agent"}
            for entry in entries
        ]
        chunks = MemoryChunk.objects.bulk_create(
            MemoryChunk(entry=entry, position=0, text=text, **own)
            for entry, (_, text), own in zip(entries, rows, shared, strict=True)
        )
        MemoryVector.objects.bulk_create(
            MemoryVector(
                chunk=chunk, model=embedder.name, dimensions=embedder.dimensions, vector=v, **own
            )
            for chunk, v, own in zip(
                chunks, embedder.embed([text for _, text in rows]), shared, strict=True
            )
        )
        texts |= {chunk.pk: chunk.text for chunk in chunks}
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memory_memorychunk, memory_memoryvector, agent_memory_entries")
    return texts
