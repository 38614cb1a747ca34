"""One text of a document, as somebody wrote it. The database refuses to change it."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from memory.models.entry import MemoryEntry
from tenants.ids import uuid7
from tenants.models import OwnedModel


class MemoryVersion(OwnedModel):
    """Immutable, but for redaction: it takes the text and leaves who wrote when."""

    class Author(models.TextChoices):
        PERSON = "person"
        TOOL = "tool"
        RUNTIME = "runtime"
        IMPORT = "import"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    entry = models.ForeignKey(MemoryEntry, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    content = models.TextField(blank=True)
    hash = models.CharField(max_length=64, blank=True)
    bytes = models.PositiveIntegerField(default=0)
    trust = models.CharField(max_length=9, choices=MemoryEntry.Trust)
    author = models.CharField(max_length=7, choices=Author)
    #: Where it came from. Plain ids: the record outlives what it names.
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
