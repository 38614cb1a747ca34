"""The session: one conversation, one lane, one log; its resources, sub-agents and saved lists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Now

from agents.models import Agent, AgentVersion, Environment
from tenants.models import OwnedModel, OwnedQuerySet, Workspace

PERIOD, FIRST_PERIOD = timedelta(minutes=10), datetime(2000, 1, 1, tzinfo=UTC)


def period_of(moment: datetime) -> datetime:
    """Return the `active_period` of a session that was active at this moment."""
    return moment - (moment - FIRST_PERIOD) % PERIOD


class SessionQuerySet(OwnedQuerySet):
    def active(self) -> Self:
        """Sessions that are not archived."""
        return self.filter(archived_at=None)

    def latest_first(self) -> Self:
        """Sort by the latest activity. The period is only there for the index."""
        return self.order_by("-active_period", "-active_at", "-pk")

    def chats(self) -> Self:
        """Conversations of people with agents: no sub-agents, no builder sessions, none empty.

        A chat with branches is one of them: the branch that it shows.
        """
        return self.conversations().filter(is_shown=True)

    def conversations(self) -> Self:
        """All branches of all chats."""
        return self.active().filter(parent=None, about=None, last_seq__gt=0)

    def branches(self, session: Session) -> Self:
        """All branches of a session's chat, with the session itself."""
        root = session.branch_root_id
        return self.filter(branch_root_id=root) if root else self.filter(pk=session.pk)

    def titled(self, part: str) -> Self:
        """Sessions whose title contains this text in any case. The grams only lead to the index."""
        grams = ArrayField(models.TextField())
        rows = self.alias(grams=Func(F("title"), function="title_grams", output_field=grams))
        wanted = Func(Value(part), function="title_grams", output_field=grams)
        return rows.filter(grams__contains=wanted, title__icontains=part)

    def below(self, session_id: UUID) -> Self:
        """Sessions that this one created, directly or through others."""
        return self.filter(parent__isnull=False, ancestors__contains=[session_id])


class Session(OwnedModel):
    """A session of an agent.

    The columns from `last_seq` to `lease_expires` belong to the lane, and only its SQL writes them.
    No index holds such a column, so that the updates stay on their page. An index on `active_at`
    would cost a turn more than the turn itself, so lists use `active_period`, which changes rarely.
    """

    class Status(models.TextChoices):
        IDLE = "idle"
        RUNNING = "running"
        RESCHEDULING = "rescheduling"
        REQUIRES_ACTION = "requires_action"
        TERMINATED = "terminated"

    # The indexes by activity and by age begin with it.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    agent = models.ForeignKey(Agent, on_delete=models.RESTRICT, related_name="sessions")
    agent_version = models.ForeignKey(AgentVersion, on_delete=models.RESTRICT, related_name="+")
    environment = models.ForeignKey(
        Environment, null=True, blank=True, on_delete=models.RESTRICT, related_name="+"
    )
    #: The agent that a builder session builds. Not in the metadata, which clients can write.
    about = models.ForeignKey(
        Agent, null=True, blank=True, editable=False, on_delete=models.RESTRICT, related_name="+"
    )
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.RESTRICT, related_name="children"
    )
    #: The sessions above this one, from the root down to its parent. Set when it is created.
    ancestors = ArrayField(models.UUIDField(), default=list, db_default=[], editable=False)
    session_key = models.CharField(max_length=200, null=True, blank=True)
    title = models.CharField(max_length=200, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    #: The outcome that runs are judged by; see `outcomes/criteria.py`.
    outcome = models.JSONField(null=True, blank=True)
    status = models.CharField(
        max_length=15, choices=Status, default=Status.IDLE, db_default=Status.IDLE
    )
    last_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: The last event that the active snapshot covers.
    snapshot_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: The last event from which the agent has saved what matters to memory.
    flushed_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: No automatic compaction before this seq, because one failed or was undone.
    compact_after_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: Untrusted text came into it by another way than its own calls; see `context/taint.py`.
    saw_outside = models.BooleanField(default=False, db_default=False, editable=False)
    lane_epoch = models.BigIntegerField(default=0, db_default=0, editable=False)
    lease_owner = models.UUIDField(null=True, editable=False)
    lease_expires = models.DateTimeField(null=True, editable=False)
    input_tokens = models.BigIntegerField(default=0, db_default=0, editable=False)
    output_tokens = models.BigIntegerField(default=0, db_default=0, editable=False)
    cost = models.DecimalField(
        max_digits=16, decimal_places=8, default=0, db_default=0, editable=False
    )
    active_at = models.DateTimeField(db_default=Now(), editable=False)
    #: The ten minutes that `active_at` falls into.
    active_period = models.GeneratedField(
        expression=Func(Value(PERIOD), F("active_at"), Value(FIRST_PERIOD), function="date_bin"),
        output_field=models.DateTimeField(),
        db_persist=True,
    )
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)
    #: Pinned chats come first in the list beside the chat.
    pinned_at = models.DateTimeField(null=True, blank=True, editable=False)
    #: The secret of the link that shows the chat to anyone, up to `shared_seq`. Empty: not shared.
    share_token = models.CharField(
        max_length=64, blank=True, default="", db_default="", editable=False
    )
    shared_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: The model that this session uses in place of its agent's. Empty: the agent's.
    provider = models.CharField(max_length=20, blank=True, default="", db_default="")
    model = models.CharField(max_length=120, blank=True, default="", db_default="")
    #: The folder of the chat in its person's list.
    folder = models.CharField(max_length=60, blank=True, default="", db_default="")
    #: The first session of a chat that has branches, also on itself, and where this one parted.
    branch_root = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        editable=False,
        db_index=False,
        on_delete=models.CASCADE,
        related_name="+",
    )
    branch_of = models.UUIDField(null=True, blank=True, editable=False)
    branch_seq = models.BigIntegerField(default=0, db_default=0, editable=False)
    #: The list of chats shows one branch of a chat: the one that a person chose last.
    is_shown = models.BooleanField(default=True, db_default=True, editable=False)

    objects = SessionQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "agent_sessions"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["workspace", "-active_period"], name="session_by_activity"),
            models.Index(fields=["workspace", "-created_at", "-id"], name="session_by_age"),
            # All letters and pairs of letters, because the embedded server has no pg_trgm.
            GinIndex(Func(F("title"), function="title_grams"), name="session_by_title"),
            GinIndex(fields=["metadata"], name="session_by_metadata"),
            models.Index(
                fields=["workspace"],
                condition=Q(pinned_at__isnull=False),
                name="session_by_pin",
            ),
            models.Index(fields=["workspace"], condition=~Q(folder=""), name="session_by_folder"),
            models.Index(
                fields=["branch_root"],
                condition=Q(branch_root__isnull=False),
                name="session_by_branch_root",
            ),
            GinIndex(
                fields=["ancestors"], condition=Q(parent__isnull=False), name="session_by_ancestor"
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "session_key"], name="session_key_is_unique_in_its_agent"
            ),
            models.UniqueConstraint(
                fields=["share_token"],
                condition=~Q(share_token=""),
                name="session_share_token_is_unique",
            ),
            models.CheckConstraint(
                condition=Q(snapshot_seq__lte=models.F("last_seq")),
                name="session_snapshot_is_within_log",
            ),
        ]

    def __str__(self) -> str:
        return self.title or f"session {self.pk}"


class Feedback(OwnedModel):
    """What a person thinks of an answer."""

    class Rating(models.IntegerChoices):
        GOOD = 1, "Good"
        BAD = -1, "Bad"

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="feedback")
    #: The event of the answer.
    seq = models.BigIntegerField()
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    rating = models.SmallIntegerField(choices=Rating)
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        db_table = "session_feedback"
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["workspace", "-created_at", "-id"], name="feedback_by_age")]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "seq", "person"], name="answer_is_rated_once_by_a_person"
            ),
            models.CheckConstraint(condition=Q(rating__in=[1, -1]), name="rating_is_good_or_bad"),
        ]

    def __str__(self) -> str:
        return f"{self.get_rating_display()} at {self.seq} of {self.session_id}"


class ResourceAttachment(OwnedModel):
    """Something that a session was given to work with, mounted at a path."""

    class Kind(models.TextChoices):
        WORKSPACE_DIRECTORY = "workspace_directory"
        LOCAL_FILE = "local_file"
        LEARNINGS_MEMORY_STORE = "learnings_memory_store"
        SESSION_RUNTIME_MEMORY = "session_runtime_memory"
        VAULT = "vault"
        REMOTE_FILE_STORE = "remote_file_store"
        REPO_MOUNT = "repo_mount"

    class Access(models.TextChoices):
        READ_ONLY = "read_only"
        READ_WRITE = "read_write"

    class Status(models.TextChoices):
        PENDING = "pending"
        READY = "ready"
        FAILED = "failed"

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="resources")
    kind = models.CharField(max_length=24, choices=Kind)
    source_ref = models.CharField(max_length=500, blank=True)
    mount_path = models.CharField(max_length=200)
    access = models.CharField(max_length=10, choices=Access, default=Access.READ_ONLY)
    #: Whether it is prepared. A worker does that before the first call that can use it.
    status = models.CharField(max_length=7, choices=Status, default=Status.PENDING)
    reason = models.TextField(blank=True)
    prepared_at = models.DateTimeField(null=True, blank=True)
    #: The folder or file that holds it, below the session's `mounts`.
    prepared_as = models.CharField(max_length=200, blank=True, editable=False)

    class Meta:
        ordering = ["mount_path"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "mount_path"], name="resource_has_its_own_path"
            )
        ]

    @property
    def notice(self) -> str:
        """Return what a person who attaches this must know."""
        if self.kind != self.Kind.VAULT:
            return ""
        return (
            "Commands in this session's sandbox can read these secrets, and so can the model that "
            "writes the commands. Attach only secrets that you can afford to lose."
        )

    def __str__(self) -> str:
        return f"{self.kind} at {self.mount_path}"


class SavedViewQuerySet(OwnedQuerySet):
    def seen_by(self, person_id: UUID | None) -> SavedViewQuerySet:
        """A person's own views and those that others share."""
        return self.filter(Q(person_id=person_id) | Q(is_shared=True))


class SavedView(OwnedModel):
    """A saved view: the query of a list with its filters. Its rows are queried each time."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1_000, blank=True)
    #: Whether every member of the workspace sees it.
    is_shared = models.BooleanField(default=False)

    objects = SavedViewQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        db_table = "session_saved_views"
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "person", "name"], name="saved_view_is_named_once"
            )
        ]

    def __str__(self) -> str:
        return self.name


class SubagentSpawn(OwnedModel):
    """Execution and delivery are tracked separately.

    `status` follows the child's runs by a database trigger, in the commit that ends them.
    `delivered_at` is set in the commit that writes the result into the parent's log.
    """

    class Kind(models.TextChoices):
        SPAWN = "spawn"
        #: A message to an existing session whose reply is awaited.
        SEND = "send"

    class Status(models.TextChoices):
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"

    kind = models.CharField(max_length=5, choices=Kind, default=Kind.SPAWN)
    parent_session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="spawns")
    child_session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="spawned_by")
    parent_run_id = models.UUIDField(null=True)
    #: The call that created it. The call finds this row if it is repeated after a crash.
    tool_use_id = models.CharField(max_length=64)
    child_run_id = models.UUIDField(null=True)
    task = models.TextField(blank=True)
    depth = models.PositiveSmallIntegerField(default=1)
    #: Whether the parent's call stays open until the result is delivered.
    waits = models.BooleanField(default=True)
    status = models.CharField(max_length=9, choices=Status, default=Status.RUNNING)
    stop_reason = models.CharField(max_length=24, blank=True, default="", db_default="")
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    #: Its parent was stopped, so it must stop too.
    stop_asked = models.BooleanField(default=False, db_default=False)
    expires_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    delivered_seq = models.BigIntegerField(null=True)

    class Meta:
        db_table = "subagent_spawns"
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(
                fields=["child_session"], condition=Q(status="running"), name="spawn_under_way"
            ),
            models.Index(
                fields=["finished_at"],
                condition=Q(delivered_at=None, finished_at__isnull=False),
                name="spawn_to_deliver",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["parent_session", "tool_use_id"], name="spawn_is_one_per_call"
            ),
            models.CheckConstraint(
                condition=Q(status="running") | Q(finished_at__isnull=False),
                name="spawn_that_ended_says_when",
            ),
            models.CheckConstraint(
                condition=Q(delivered_at=None) | Q(finished_at__isnull=False),
                name="spawn_is_delivered_after_it_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.kind} {self.pk}"
