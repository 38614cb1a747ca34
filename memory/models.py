"""Memory documents with their versions, and the index that searches read.

The index holds chunks of the newest version of each document, and their vectors. A consolidation
holds the changes that one review of an agent's memory proposes.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
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


class Consolidation(OwnedModel):
    """One review of an agent's memory: the changes that it proposes, and what became of them."""

    class Status(models.TextChoices):
        #: Its run looks for changes. A run that is lost leaves this row to the next one.
        REVIEWING = "reviewing"
        WAITING = "waiting"
        NOTHING = "nothing"
        APPLIED = "applied"
        DISCARDED = "discarded"
        UNDONE = "undone"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    status = models.CharField(max_length=9, choices=Status, default=Status.REVIEWING)
    #: The session and run that reviewed. Plain ids: this record outlives them.
    session_id = models.UUIDField(null=True, editable=False)
    run_id = models.UUIDField(null=True, editable=False)
    #: What the model answered so far, by the digest of the request; empty once the review is over.
    answers = models.JSONField(default=dict, editable=False)
    #: The digests of groups that a model found nothing to change in. They are not asked about again.
    settled = ArrayField(models.CharField(max_length=16), default=list, editable=False)
    #: What was left out, and why.
    remark = models.TextField(blank=True)
    documents = models.PositiveIntegerField(default=0)
    notes = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=16, decimal_places=8, default=0)
    decided_at = models.DateTimeField(null=True, editable=False)
    #: Empty when it was applied by itself.
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    undone_at = models.DateTimeField(null=True, editable=False)
    undone_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )

    class Meta:
        db_table = "memory_consolidations"
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["agent", "-created_at"], name="consolidation_by_agent"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "status"],
                condition=Q(status__in=["reviewing", "waiting"]),
                name="consolidation_is_open_once_per_agent",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} consolidation of {self.created_at:%Y-%m-%d}"


class ConsolidationChange(OwnedModel):
    """The change of one document that a consolidation proposes, with its reasons."""

    class Action(models.TextChoices):
        WRITE = "write"
        CREATE = "create"
        DELETE = "delete"
        #: Keep the document, but hide it from searches.
        HIDE = "hide"

    class Outcome(models.TextChoices):
        PENDING = "pending"
        APPLIED = "applied"
        #: The document, or one that it relies on, had changed meanwhile.
        SKIPPED = "skipped"
        UNDONE = "undone"

    consolidation = models.ForeignKey(
        Consolidation, on_delete=models.CASCADE, related_name="changes"
    )
    position = models.PositiveIntegerField()
    action = models.CharField(max_length=6, choices=Action)
    #: Null until a document that it creates exists.
    entry = models.ForeignKey(
        MemoryEntry, null=True, on_delete=models.CASCADE, related_name="consolidation_changes"
    )
    path = models.CharField(max_length=LONGEST_PATH)
    #: The new text. Emptied once it is decided: then the document's versions have it.
    content = models.TextField(blank=True, editable=False)
    #: One for each note that goes or changes; see `memory.consolidation.Reason`.
    reasons = models.JSONField(default=list)
    #: The documents whose text it takes over or relies on, by id, with the hashes that were read.
    relies_on = models.JSONField(default=dict, editable=False)
    outcome = models.CharField(max_length=7, choices=Outcome, default=Outcome.PENDING)
    remark = models.CharField(max_length=300, blank=True)
    #: The numbers of the document's versions before and after.
    version_before = models.PositiveIntegerField(null=True, editable=False)
    version_after = models.PositiveIntegerField(null=True, editable=False)

    class Meta:
        db_table = "memory_consolidation_changes"
        ordering = ["consolidation", "position"]
        indexes = [GinIndex(fields=["relies_on"], name="consolidation_by_source")]
        constraints = [
            models.UniqueConstraint(
                fields=["consolidation", "path"], name="consolidation_changes_a_path_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.path}"


class ConsolidationChoice(OwnedModel):
    """How the memory of one agent is consolidated. Without a row, the defaults apply."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, related_name="+")
    #: Apply changes without waiting for a person.
    applies_itself = models.BooleanField(default=False)
    #: The most that the model calls of one consolidation may cost, in US dollars.
    budget = models.DecimalField(max_digits=8, decimal_places=2, default=Decimal("0.50"))

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(budget__gte=0), name="consolidation_budget_is_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return "applies itself" if self.applies_itself else "waits for a person"
