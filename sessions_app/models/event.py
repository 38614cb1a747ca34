"""The log of a session: events, the text that is not stored as one yet, and snapshots of the context."""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector
from django.db import models
from django.db.models import F, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Now
from pgvector.django import VectorField

from core.ids import uuid7
from sessions_app.models.session import Session
from tenants.models import OwnedModel, OwnedQuerySet, Workspace


class SessionEventQuerySet(OwnedQuerySet):
    def after(self, seq: int) -> Self:
        return self.filter(seq__gt=seq).order_by("seq")


class SessionEvent(models.Model):
    """An event of the log.

    `processed_at` and `processed_run` are set once, by the run that takes the event. An event that
    needs no run is processed in the commit that writes it.
    """

    class Type(models.TextChoices):
        USER_MESSAGE = "user.message"
        USER_MESSAGE_EDITED = "user.message_edited"
        USER_MESSAGE_WITHDRAWN = "user.message_withdrawn"
        USER_INTERRUPT = "user.interrupt"
        USER_TOOL_CONFIRMATION = "user.tool_confirmation"
        USER_CUSTOM_TOOL_RESULT = "user.custom_tool_result"
        AGENT_MESSAGE = "agent.message"
        AGENT_THINKING = "agent.thinking"
        AGENT_TOOL_USE = "agent.tool_use"
        AGENT_CUSTOM_TOOL_USE = "agent.custom_tool_use"
        AGENT_TOOL_RESULT = "agent.tool_result"
        STATUS_CHANGED = "session.status_changed"
        STATUS_IDLE = "session.status_idle"
        CONTEXT_COMPACTED = "session.context_compacted"
        COMPACTION_UNDONE = "session.compaction_undone"
        CHILD_CREATED = "session.child_created"
        CHILD_IDLE = "session.child_idle"
        ERROR = "session.error"
        RESOURCE_ATTACHED = "session.resource_attached"
        OUTCOME_JUDGED = "session.outcome_judged"
        TERMINAL_OPENED = "session.terminal_opened"
        CONTEXT_NOTED = "session.context_noted"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    # The unique (session, seq) serves as its index.
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_index=False, related_name="events"
    )
    seq = models.BigIntegerField()
    type = models.CharField(max_length=32, choices=Type)
    payload = models.JSONField()
    #: The run that wrote it. Without a constraint, because a check per event would be too costly.
    run = models.ForeignKey(
        "sessions_app.Run",
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="events",
    )
    processed_at = models.DateTimeField(null=True)
    processed_run = models.ForeignKey(
        "sessions_app.Run",
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    dedupe_key = models.CharField(max_length=80, null=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    #: The key that a message was sent with.
    key_id = models.UUIDField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = SessionEventQuerySet.as_manager()

    class Meta:
        db_table = "session_messages"
        ordering = ["session", "seq"]
        indexes = [
            GinIndex(
                SearchVector(KT("payload__text"), config="english"),
                condition=Q(type__in=["user.message", "agent.message"]),
                name="event_by_words",
            ),
            models.Index(
                fields=["session", "seq"],
                condition=Q(type="session.outcome_judged"),
                name="event_by_verdict",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["session", "seq"], name="event_seq_is_unique"),
            models.UniqueConstraint(
                fields=["session", "dedupe_key"],
                condition=Q(dedupe_key__isnull=False),
                name="event_dedupe_key_is_unique",
            ),
            models.CheckConstraint(condition=Q(seq__gte=1), name="event_seq_starts_at_one"),
            models.CheckConstraint(
                condition=Q(processed_at=None, processed_run=None) | Q(processed_at__isnull=False),
                name="event_is_taken_at_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} #{self.seq}"


class Draft(models.Model):
    """The text of an answer in progress, or the thinking before it. The table is unlogged, and the stored event replaces the
    row.
    """

    class Kind(models.TextChoices):
        TEXT = "text"
        THINKING = "thinking"

    session = models.OneToOneField(
        Session, primary_key=True, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    event_id = models.UUIDField()
    run_id = models.UUIDField()
    epoch = models.BigIntegerField()
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.TEXT, db_default=Kind.TEXT)
    text = models.TextField()

    class Meta:
        db_table = "session_drafts"

    def __str__(self) -> str:
        return f"draft of {self.event_id}"


class ToolOutput(models.Model):
    """The output of a call in progress. The table is unlogged, and the call's result replaces the
    row.
    """

    tool_use_id = models.CharField(primary_key=True, max_length=64)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    run_id = models.UUIDField()
    epoch = models.BigIntegerField()
    name = models.CharField(max_length=160)
    #: Code points of output before `text`.
    start = models.BigIntegerField()
    text = models.TextField()

    class Meta:
        db_table = "session_tool_outputs"

    def __str__(self) -> str:
        return f"output of {self.tool_use_id}"


class ContextSnapshotQuerySet(OwnedQuerySet):
    def active(self) -> Self:
        """Snapshots that were not undone, newest first. A session's context begins with the newest."""
        return self.filter(undone_at=None).order_by("-id")


class ContextSnapshot(OwnedModel):
    """A summary of the events up to `last_seq`. It is never changed, only undone, once."""

    class Trigger(models.TextChoices):
        AUTO = "auto"
        OVERFLOW = "overflow"
        MANUAL = "manual"

    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_index=False, related_name="snapshots"
    )
    #: The run that made it.
    run = models.ForeignKey(
        "sessions_app.Run",
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    previous = models.ForeignKey(
        "self", null=True, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    trigger = models.CharField(max_length=8, choices=Trigger)
    #: The events that the summary covers, including those of the previous snapshot.
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    first_kept_seq = models.BigIntegerField()
    #: Events up to `last_seq` that it does not cover: waiting messages, and the task of a turn.
    carried = ArrayField(models.BigIntegerField(), default=list)
    summary = models.TextField()
    model = models.CharField(max_length=200)
    tokens_before = models.PositiveIntegerField()
    tokens_after = models.PositiveIntegerField()
    #: Deferred tools that the model loaded up to there. They stay loaded.
    loaded_tools = ArrayField(models.CharField(max_length=160), default=list, db_default=[])
    #: Documents that were saved to memory before the summary was made.
    memory_ids = ArrayField(models.UUIDField(), default=list)
    undone_at = models.DateTimeField(null=True, editable=False)
    undone_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        db_index=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )

    objects = ContextSnapshotQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "agent_context_snapshots"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["session", "-id"], name="snapshot_by_session"),
            models.Index(
                fields=["session", "-id"], condition=Q(undone_at=None), name="snapshot_active"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(first_seq__gte=1, last_seq__gte=F("first_seq")),
                name="snapshot_stands_for_something",
            )
        ]

    def __str__(self) -> str:
        return f"events {self.first_seq} to {self.last_seq}"


class MessageVector(OwnedModel):
    """The vector of one piece of a message, made when a conversation is first searched by meaning."""

    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_index=False, related_name="message_vectors"
    )
    seq = models.BigIntegerField()
    position = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=120)
    vector = VectorField()

    class Meta:
        db_table = "message_vectors"
        ordering = ["session", "seq", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "model", "seq", "position"],
                name="message_vector_is_one_per_piece",
            ),
        ]

    def __str__(self) -> str:
        return f"piece {self.position} of message {self.seq}"
