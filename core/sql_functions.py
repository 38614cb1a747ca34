"""Installs the SQL functions and triggers of every app, whenever migrations have run.

An app keeps them in `sql/*.sql`, written with CREATE OR REPLACE: the files are the only place where
they are defined, so a database that was upgraded step by step has the same ones as a new database.
A migration is needed only to drop a function or to change what it returns.
"""

from __future__ import annotations

import re
from pathlib import Path

from django.apps import AppConfig, apps
from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper
from django.db.migrations.executor import MigrationExecutor

#: Two machines that migrate at the same time install one after the other.
LOCK = 7_243_001
FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\(", re.MULTILINE)


def install_after_migrate(
    sender: AppConfig, using: str, plan: object = None, **signal: object
) -> None:
    """Install the functions after `migrate`. A flush sends the same signal, without a plan."""
    if plan is not None and is_up_to_date(using):
        install_functions(using)


def is_up_to_date(using: str) -> bool:
    """Return whether every migration is applied, so that the tables the functions name exist."""
    executor = MigrationExecutor(connections[using])
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())


def install_functions(using: str) -> None:
    """Create or replace every function and trigger, in one transaction."""
    scripts = [path.read_text() for path in sql_files()]
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        # Functions may call each other, whatever the order of the files.
        cursor.execute("SET LOCAL check_function_bodies = off")
        for script in scripts:
            cursor.execute(script)
        drop_older_signatures(
            cursor, [name for script in scripts for name in FUNCTION.findall(script)]
        )


def sql_files() -> list[Path]:
    """Return the SQL files of every installed app, in the order of the apps."""
    folders = [Path(app.path) / "sql" for app in apps.get_app_configs()]
    return [path for folder in folders for path in sorted(folder.glob("*.sql"))]


def drop_older_signatures(cursor: CursorWrapper, names: list[str]) -> None:
    """Drop functions of these names that this transaction did not write: their arguments changed."""
    cursor.execute(
        """
        SELECT p.oid::regprocedure::text FROM pg_proc p
         WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = ANY(%s)
           AND p.xmin::text::bigint <> pg_current_xact_id()::text::bigint %% (1::bigint << 32)
        """,
        [names],
    )
    for (signature,) in cursor.fetchall():
        cursor.execute(f"DROP FUNCTION {signature} CASCADE")
