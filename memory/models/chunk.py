"""What recall searches: pieces of the newest version of each document, and their vectors."""

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models.expressions import CombinedExpression
from pgvector.django import VectorField

from memory.models.entry import MemoryEntry
from tenants.ids import uuid7
from tenants.models import OwnedModel

LANGUAGE = "english"


def _weighed() -> CombinedExpression:
    """A piece's own words count most, then what it is about, then what stands beside it."""
    return (
        SearchVector("text", config=LANGUAGE, weight="A")
        + SearchVector("label", config=LANGUAGE, weight="B")
        + SearchVector("speakers", config=LANGUAGE, weight="C")
        + SearchVector("beside", config=LANGUAGE, weight="D")
    )


class MemoryChunk(OwnedModel):
    """A document that must never be recalled has none."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    entry = models.ForeignKey(MemoryEntry, on_delete=models.CASCADE, related_name="chunks")
    #: As in the entry, so that the rows of an owner are found before anything is ranked.
    owner_id = models.UUIDField()
    scope = models.CharField(max_length=9, choices=MemoryEntry.Scope)
    position = models.PositiveIntegerField()
    text = models.TextField()
    #: The path's words and the headings above it.
    label = models.TextField(blank=True)
    #: Who speaks in it, in a transcript.
    speakers = models.TextField(blank=True)
    #: The text of the chunks before and after it.
    beside = models.TextField(blank=True)
    tsv = models.GeneratedField(
        expression=_weighed(), output_field=SearchVectorField(), db_persist=True
    )

    class Meta:
        ordering = ["entry", "position"]
        indexes = [
            models.Index(fields=["workspace", "owner_id"], name="memory_chunk_by_owner"),
            GinIndex(fields=["tsv"], name="memory_chunk_by_word"),
        ]
        constraints = [
            # Looked at when a document is written whole: chunks change places.
            models.UniqueConstraint(
                fields=["entry", "position"],
                name="memory_chunk_has_a_place_in_its_entry",
                deferrable=models.Deferrable.DEFERRED,
            ),
        ]

    def __str__(self) -> str:
        return f"chunk {self.position}"


class MemoryVector(OwnedModel):
    """One chunk as one model sees it. Models of several sizes live side by side.

    Each model has an index of its own over its own rows; see `memory.vector_index`.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    chunk = models.ForeignKey(MemoryChunk, on_delete=models.CASCADE, related_name="vectors")
    owner_id = models.UUIDField()
    scope = models.CharField(max_length=9, choices=MemoryEntry.Scope)
    model = models.CharField(max_length=120)
    dimensions = models.PositiveIntegerField()
    vector = VectorField()

    class Meta:
        ordering = ["chunk", "model"]
        constraints = [
            models.UniqueConstraint(
                fields=["chunk", "model"], name="memory_vector_is_one_per_model"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} ({self.dimensions})"
