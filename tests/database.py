"""The test database: a copy of a template that is migrated once, and emptied quickly after a test."""

from __future__ import annotations

import hashlib
from functools import cache

from django.core.management import call_command
from django.db import connection
from django.test import TransactionTestCase

from core.env import ROOT
from core.plugins import plugins

#: The files that decide how a migrated database looks.
SOURCES = (
    *("*/migrations/*.py", "*/sql/*.sql", "*/models/*.py", "*/models.py", "*/apps.py"),
    *("core/sql_functions.py", "config/settings/base.py", "requirements.lock"),
)
#: Runs that start at the same time make the template once.
LOCK = 7_243_101
PREFIX = "test_template_"
#: Written by `migrate` and never changed by a test.
KEPT = {"django_content_type", "auth_permission"}
LARGE = 1_000_000  #: bytes


def create_test_database(name: str) -> None:
    """Create a migrated database under this name and let the connection use it."""
    # The template has no tables of plugins.
    template = "template1" if plugins else migrated_template()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    _use(name)
    if plugins:
        call_command("migrate", verbosity=0, interactive=False)


def drop_test_database(name: str) -> None:
    """Drop it, even if a thread of a test still holds a connection."""
    connection.close()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrated_template() -> str:
    """Return the name of the migrated database, made now if the sources have changed."""
    name = f"{PREFIX}{fingerprint()}"
    with connection._nodb_cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        cursor.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [PREFIX])
        found = {row[0] for row in cursor.fetchall()}
        if name in found:
            return name
        for older in found:
            cursor.execute(f"DROP DATABASE {older} WITH (FORCE)")
        unfinished = f"{PREFIX}unfinished"
        cursor.execute(f"CREATE DATABASE {unfinished}")
        _use(unfinished)
        call_command("migrate", verbosity=0, interactive=False)
        connection.close()
        cursor.execute(f"ALTER DATABASE {unfinished} RENAME TO {name}")
    return name


def fingerprint() -> str:
    """Return a hash of the files that decide how a migrated database looks."""
    made = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in ROOT.glob(pattern)):
        made.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return made.hexdigest()[:16]


def _use(name: str) -> None:
    connection.close()
    connection.settings_dict["NAME"] = name


def empty_tables(case: TransactionTestCase) -> None:
    """Delete what a test committed. Takes the place of the flush of Django's test case.

    A flush truncates every table and then creates all content types and permissions anew, which
    takes longer than most tests.
    """
    with connection.cursor() as cursor:
        cursor.execute(_empty_all_tables())


@cache
def _empty_all_tables() -> str:
    """Return the statement that deletes all rows, once no transaction of the test is left.

    Deleting few rows is much quicker than truncating; large tables, and tables full of dead rows
    of earlier tests, are truncated. The role switches off foreign keys and append-only triggers.
    """
    tables = sorted(set(connection.introspection.django_table_names()) - KEPT)
    names = ", ".join(connection.ops.quote_name(table) for table in tables)
    deletions = "\n".join(f"DELETE FROM {connection.ops.quote_name(table)};" for table in tables)  # noqa: S608
    return f"""
        DO $$ BEGIN
            LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE;
            IF current_setting('is_superuser') = 'off' OR EXISTS (
                SELECT FROM pg_class WHERE relkind = 'r' AND pg_relation_size(oid) > {LARGE}
                   AND relnamespace = current_schema()::regnamespace AND relname = ANY(ARRAY{tables})
            ) THEN
                TRUNCATE {names};
            ELSE
                SET LOCAL session_replication_role = replica;
                {deletions}
            END IF;
        END $$
    """
