"""The search index: chunks of the newest version of each document, and their vectors."""

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models import Q
from django.db.models.expressions import CombinedExpression
from pgvector.django import VectorField

from memory.models.document import MemoryEntry
from tenants.models import OwnedModel

LANGUAGE = "english"


def _weighed() -> CombinedExpression:
    """Weigh a chunk's own words most, then its label, its speakers and its neighbours."""
    return (
        SearchVector("text", config=LANGUAGE, weight="A")
        + SearchVector("label", config=LANGUAGE, weight="B")
        + SearchVector("speakers", config=LANGUAGE, weight="C")
        + SearchVector("beside", config=LANGUAGE, weight="D")
    )


class MemoryChunk(OwnedModel):
    """One chunk of a document. Documents that must never be recalled have none."""

    entry = models.ForeignKey(MemoryEntry, on_delete=models.CASCADE, related_name="chunks")
    #: Copied from the document, so that an owner's rows are found before anything is ranked.
    owner_id = models.UUIDField()
    scope = models.CharField(max_length=9, choices=MemoryEntry.Scope)
    position = models.PositiveIntegerField()
    text = models.TextField()
    #: The words of the path and the headings above the chunk.
    label = models.TextField(blank=True)
    #: Who speaks in the chunk, in a transcript.
    speakers = models.TextField(blank=True)
    #: The text of the chunks before and after.
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
            # Deferred to the commit: chunks may swap positions.
            models.UniqueConstraint(
                fields=["entry", "position"],
                name="memory_chunk_has_a_place_in_its_entry",
                deferrable=models.Deferrable.DEFERRED,
            ),
        ]

    def __str__(self) -> str:
        return f"chunk {self.position}"


class MemoryVector(OwnedModel):
    """The vector of one chunk for one model. Vectors of several sizes coexist.

    Each model has an index over its own rows; see `memory.embeddings`.
    """

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


class EmbeddingChoice(OwnedModel):
    """The embedding model of a workspace. While another one is being filled, writers fill both."""

    model = models.CharField(max_length=120)
    #: The model that `manage.py reembed` is moving to; empty when it is done.
    coming = models.CharField(max_length=120, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"], name="embedding_choice_is_one_per_workspace"
            ),
            models.CheckConstraint(
                condition=~Q(coming=models.F("model")), name="embedding_moves_to_another_model"
            ),
        ]

    def __str__(self) -> str:
        return self.model
