"""Rows that the server keeps for itself: idempotent responses and process heartbeats."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from tenants.models.accounts import Workspace


class IdempotentAnswer(models.Model):
    """The response to a request with an Idempotency-Key, kept for a day.

    `status` is null while the first request is running.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    key_digest = models.CharField(max_length=64)
    body_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    content_type = models.CharField(max_length=80, default="application/json")
    body = models.BinaryField(default=bytes)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "key_digest"], name="answer_is_one_per_key"
            ),
        ]

    def __str__(self) -> str:
        return f"answer {self.key_digest[:8]}"


class Pulse(models.Model):
    """The last heartbeat of a process."""

    kind = models.CharField(max_length=16)
    host = models.CharField(max_length=80)
    pid = models.PositiveIntegerField()
    at = models.DateTimeField()

    class Meta:
        db_table = "process_pulses"
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "host", "pid"], name="pulse_is_one_per_process"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.pid}"


class StorageGrowth(models.Model):
    """Bytes that a transaction has added to the rows of a workspace, or removed if negative.

    Only `sql/storage.sql` writes it. A row is inserted and never updated, so that the sessions of a
    workspace do not wait for each other; `storage_fold` moves it into `WorkspaceStorage`.
    """

    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    bytes = models.BigIntegerField()

    class Meta:
        db_table = "storage_growth"

    def __str__(self) -> str:
        return f"{self.bytes:+,} bytes"


class WorkspaceStorage(models.Model):
    """The bytes that a workspace has in the database: its logs, memory and tool calls.

    Only `sql/storage.sql` writes it. It has no constraint on the workspace, like `UsageRollup`.
    """

    workspace = models.OneToOneField(
        Workspace,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        primary_key=True,
        related_name="+",
    )
    bytes = models.BigIntegerField()
    #: Whether the workspace has reached WORKSPACE_DATABASE_MB.
    is_full = models.BooleanField(default=False, db_default=False)

    class Meta:
        db_table = "workspace_storage"

    def __str__(self) -> str:
        return f"{self.bytes:,} bytes"
