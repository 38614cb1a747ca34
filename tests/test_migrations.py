"""Tests that a database upgraded step by step equals a new one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from config.settings.base import APPS
from core.env import ROOT
from core.sql_functions import sql_files
from tests.database import migrated_template
from tests.schema import differences, schema_of

FUNCTION = re.compile(
    r"^CREATE OR REPLACE FUNCTION (\w+)\(.*?AS \$\$(.*?)\$\$", re.DOTALL | re.MULTILINE
)
#: The only modules that a migration may import.
IMPORTS = ("django", "pgvector", "encrypted_fields", "core.ids", "datetime", "uuid", "decimal")


@contextmanager
def another_database(*, template: str = "template1") -> Iterator[str]:
    """Make a database beside the test database and yield its alias."""
    name = f"test_migrations_{uuid4().hex[:12]}"
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    connections.databases[name] = {**connection.settings_dict, "NAME": name}
    try:
        yield name
    finally:
        connections[name].close()
        connections[name].close_pool()  # type: ignore[attr-defined]
        del connections[name], connections.databases[name]
        with connection._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrate(alias: str, *target: str) -> None:
    call_command("migrate", *target, database=alias, verbosity=0, interactive=False)


def schema(alias: str) -> dict[str, dict[str, str]]:
    with connections[alias].cursor() as cursor:
        return schema_of(cursor)


@pytest.fixture
def databases(django_db_setup: None, django_db_blocker) -> Iterator[None]:
    """Let a test use its own databases outside any transaction."""
    with django_db_blocker.unblock():
        yield


def test_an_upgraded_database_equals_a_fresh_one(databases):
    """The test database is the fresh one: it was migrated in one go."""
    with another_database() as upgraded:
        leaves = MigrationLoader(None).graph.leaf_nodes()
        executor = MigrationExecutor(connections[upgraded])
        for migration, _ in executor.migration_plan(leaves):
            if migration.app_label in APPS:
                migrate(upgraded, migration.app_label, migration.name)
        migrate(upgraded)
        with connections[upgraded].cursor() as cursor:  # As earlier releases left it.
            cursor.execute(
                "CREATE OR REPLACE FUNCTION new_id() RETURNS uuid LANGUAGE sql AS 'SELECT NULL::uuid';"
                "CREATE FUNCTION lane_lock(sid uuid) RETURNS int LANGUAGE sql AS 'SELECT 1';"
                "DROP TRIGGER event_is_append_only ON session_messages;"
            )
        migrate(upgraded)

        found = schema("default")
        assert differences(schema(upgraded), found) == []
        assert len(found["functions"]) > 80
        assert len(found["triggers"]) > 15


def test_an_installation_from_before_the_squash_can_be_upgraded(databases):
    """Its history names only the replaced migrations; its functions are brought up to date."""
    with another_database(template=migrated_template()) as older:
        loader = MigrationLoader(None)
        squashed = [key for key, migration in loader.disk_migrations.items() if migration.replaces]
        assert {app for app, _ in squashed} == set(APPS) - {"core"}
        with connections[older].cursor() as cursor:
            for app, name in squashed:
                cursor.execute(
                    "DELETE FROM django_migrations WHERE app = %s AND name = %s", [app, name]
                )
            cursor.execute("DROP FUNCTION lane_lock CASCADE")
        migrate(older)

        assert differences(schema(older), schema("default")) == []


@pytest.mark.django_db
@pytest.mark.parametrize("path", sql_files(), ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_the_database_has_the_functions_of_the_sql_files(path):
    written = dict(FUNCTION.findall(path.read_text()))
    assert written

    with connection.cursor() as cursor:
        cursor.execute("SELECT proname, prosrc FROM pg_proc WHERE proname = ANY(%s)", [[*written]])
        known = dict(cursor.fetchall())

    assert known == written


def test_a_migration_reads_nothing_that_can_change():
    """A migration imports no product code except ids and opens no file."""
    migrations = [path for app in APPS for path in (ROOT / app).glob("migrations/0*.py")]
    assert len(migrations) >= 10
    for path in migrations:
        tree = ast.parse(path.read_text())
        imported = [
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
        ]
        assert [name for name in imported if not name.startswith(IMPORTS)] == [], path
        assert "open(" not in path.read_text(), path


def test_every_model_is_in_the_migrations(databases):
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    assert apps.is_installed("core")
