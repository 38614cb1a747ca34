"""Brings the database and the static files up to date before anything runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

#: Any number, the same on every node: only one of them migrates at a time.
MIGRATION_LOCK = 7_401_216_001


def migrate(*, say: Callable[[str], None]) -> None:
    """Apply the migrations that are missing, one node at a time."""
    if not _migrations_are_missing():
        return
    say("Preparing the database …")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        try:
            call_command("migrate", verbosity=0, interactive=False)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])


def _migrations_are_missing() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def collect_static_files() -> None:
    """Copy the static files to where they are served from, if one of them changed."""
    stamp = Path(settings.STATIC_ROOT) / ".collected"
    signature = _signature_of_static_files()
    if stamp.exists() and stamp.read_text() == signature:
        return
    call_command("collectstatic", verbosity=0, interactive=False, clear=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(signature)


def _signature_of_static_files() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            found = Path(storage.path(name)).stat()
            digest.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()
