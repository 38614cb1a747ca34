"""Splits all documents again, after an upgrade that changes how they are split."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from memory.documents import content_of, lock_entry
from memory.index import index_entry, vectors_later
from memory.models import MemoryEntry


class Command(BaseCommand):
    help = "Update the chunks of every document to how documents are split now."

    def handle(self, *args: Any, **options: Any) -> None:
        done = 0
        for entry in MemoryEntry.objects.kept().order_by("pk").iterator(chunk_size=200):
            with transaction.atomic(), vectors_later():
                row = lock_entry(entry)
                index_entry(row, content_of(row))
            done += 1
        self.stdout.write(f"{done} documents checked.")
