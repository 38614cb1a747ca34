"""Memory documents with their versions, and the index that searches read.

The index holds chunks of the newest version of each document, and their vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models import Q
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now
from pgvector.django import VectorField

from agents.models import Agent
from tenants.models import OwnedModel, OwnedQuerySet

if TYPE_CHECKING:
    from memory.ownership import Reader

LONGEST_PATH = 400
LANGUAGE = "english"


def _is_set(**keys: bool) -> Q:
    return Q(**{f"{name}__isnull": not there for name, there in keys.items()})


class MemoryEntryQuerySet(OwnedQuerySet):
    def kept(self) -> Self:
        """Return documents that are not deleted."""
        return self.filter(deleted_at=None)

    def seen_by(self, reader: Reader) -> Self:
        """Return the documents that a reader may see. `memory.ranking` has the same rule in SQL."""
        rows = self.for_workspace(reader.workspace_id)
        if reader.whole_workspace:
            return rows.exclude(~Q(owner_id=reader.user_id), scope=MemoryEntry.Scope.USER)
        return rows.filter(owner_id__in=reader.owner_ids)


class MemoryEntry(OwnedModel):
    """A Markdown document. Its text is in its versions; `current` is the newest."""

    class Scope(models.TextChoices):
        WORKSPACE = "workspace"
        AGENT = "agent"
        USER = "user"
        SESSION = "session"

    class Trust(models.TextChoices):
        TRUSTED = "trusted"
        UNTRUSTED = "untrusted"

    path = models.CharField(max_length=LONGEST_PATH)
    scope = models.CharField(max_length=9, choices=Scope, default=Scope.AGENT)
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
    )
    session = models.ForeignKey(
        "sessions_app.Session", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    #: The id of the workspace, agent, user or session whose memory this is.
    owner_id = models.UUIDField(editable=False)
    current = models.ForeignKey(
        "memory.MemoryVersion", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    #: The hash of the newest text, which a writer sends to say what it has seen.
    hash = models.CharField(max_length=64, editable=False)
    pinned = models.BooleanField(default=False)
    #: Readable by its path, but never found by a search or shown because it is pinned.
    never_recall = models.BooleanField(default=False)
    trust = models.CharField(max_length=9, choices=Trust, default=Trust.TRUSTED)
    #: Whether chunks still lack vectors of an embedded model; see `memory.index`.
    awaits_vectors = models.BooleanField(default=False, db_default=False, editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = MemoryEntryQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "agent_memory_entries"
        ordering = ["-created_at"]
        verbose_name_plural = "memory entries"
        indexes = [
            models.Index(fields=["workspace", "owner_id"], name="memory_entry_by_owner"),
            models.Index(fields=["owner_id"], condition=Q(pinned=True), name="memory_entry_pinned"),
            models.Index(
                fields=["id"], condition=Q(awaits_vectors=True), name="memory_entry_awaits_vectors"
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "owner_id", "path"],
                condition=Q(deleted_at=None),
                name="memory_path_is_unique_for_its_owner",
            ),
            models.CheckConstraint(
                condition=(
                    Q(scope="workspace", owner_id=models.F("workspace_id"))
                    & _is_set(agent=False, user=False, session=False)
                )
                | (
                    Q(scope="agent", owner_id=models.F("agent_id"))
                    & _is_set(agent=True, user=False, session=False)
                )
                | (
                    Q(scope="user", owner_id=models.F("user_id"))
                    & _is_set(agent=False, user=True, session=False)
                )
                | (
                    Q(scope="session", owner_id=models.F("session_id"))
                    & _is_set(agent=False, user=False, session=True)
                ),
                name="memory_owner_is_of_its_scope",
            ),
        ]

    def __str__(self) -> str:
        return self.path


class MemoryVersion(OwnedModel):
    """An immutable version. Redaction removes its text and keeps its author and date."""

    class Author(models.TextChoices):
        PERSON = "person"
        TOOL = "tool"
        RUNTIME = "runtime"
        IMPORT = "import"

    entry = models.ForeignKey(MemoryEntry, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    content = models.TextField(blank=True)
    hash = models.CharField(max_length=64, blank=True)
    bytes = models.PositiveIntegerField(default=0)
    trust = models.CharField(max_length=9, choices=MemoryEntry.Trust)
    author = models.CharField(max_length=7, choices=Author)
    #: Where the text came from. Plain ids: this record outlives what they refer to.
    tool = models.CharField(max_length=80, blank=True)
    session_id = models.UUIDField(null=True, blank=True)
    run_id = models.UUIDField(null=True, blank=True)
    call_id = models.CharField(max_length=200, blank=True)
    event_id = models.UUIDField(null=True, blank=True)
    redacted_at = models.DateTimeField(null=True, blank=True)
    redacted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
    )

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["entry", "number"], name="memory_version_number_is_unique_in_its_entry"
            ),
        ]

    def __str__(self) -> str:
        return f"version {self.number}"

    @property
    def author_name(self) -> str:
        """Return the author as the pages name it: a person, an agent's tool, an import."""
        name = self.created_by.display_name if self.created_by else ""
        match self.author:
            case MemoryVersion.Author.TOOL:
                return f"Agent, by {self.tool}" if self.tool else "Agent"
            case MemoryVersion.Author.IMPORT:
                return f"Import by {name}" if name else "Import"
            case MemoryVersion.Author.RUNTIME:
                return "Switchyard"
            case _:
                return name or "A person"


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
