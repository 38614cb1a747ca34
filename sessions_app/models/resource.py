"""What a session was given to work with."""

from __future__ import annotations

from django.db import models

from sessions_app.models.session import Session
from tenants.ids import uuid7
from tenants.models import OwnedModel


class ResourceAttachment(OwnedModel):
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

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="resources")
    kind = models.CharField(max_length=24, choices=Kind)
    source_ref = models.CharField(max_length=500, blank=True)
    mount_path = models.CharField(max_length=200)
    access = models.CharField(max_length=10, choices=Access, default=Access.READ_ONLY)
    #: What became of preparing it, which a worker does before the first call that can use it.
    status = models.CharField(max_length=7, choices=Status, default=Status.PENDING)
    reason = models.TextField(blank=True)
    prepared_at = models.DateTimeField(null=True, blank=True)
    #: The folder or file it was made as, below the session's `mounts`.
    prepared_as = models.CharField(max_length=200, blank=True, editable=False)

    class Meta:
        ordering = ["mount_path"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "mount_path"], name="resource_has_its_own_path"
            ),
        ]

    @property
    def notice(self) -> str:
        """What a person who attaches it must know."""
        if self.kind != self.Kind.VAULT:
            return ""
        return (
            "Commands in this session's sandbox can read these secrets, and so can the model that "
            "writes the commands. Give it only secrets that may be lost."
        )

    def __str__(self) -> str:
        return f"{self.kind} at {self.mount_path}"
