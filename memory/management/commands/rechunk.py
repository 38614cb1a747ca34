"""Splits the documents of memory again, after an upgrade that splits otherwise; may be stopped."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from memory.documents import content_of
from memory.index import index_entry
from memory.models import MemoryEntry
from memory.writing import locked


class Command(BaseCommand):
    help = "Bring the chunks of every document in step with how documents are split now."

    def handle(self, *args: Any, **options: Any) -> None:
        done = 0
        for entry in MemoryEntry.objects.kept().order_by("pk").iterator(chunk_size=200):
            with transaction.atomic():
                row = locked(entry)
                index_entry(row, content_of(row))
            done += 1
        self.stdout.write(f"{done} documents looked at.")
