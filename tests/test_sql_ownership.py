"""No app reads or writes the tables of another app in SQL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps

from config.settings.base import APPS
from core.env import ROOT

STATEMENT = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM)\b")
#: Comments and texts, which name no table. A trigger may stand on another app's table: it is how an
#: app takes part in the commits of an app to its left, and it reads only the row that it is given.
IGNORED = re.compile(r"--[^\n]*|'[^']*'|CREATE OR REPLACE TRIGGER [^;]+;")
#: A name that no schema or alias qualifies and that is not called.
NAME = re.compile(r"(?<![\w.:])([a-z_]+)\b(?!\s*\()")


def owners() -> dict[str, str]:
    """Return the app of each table."""
    return {
        model._meta.db_table: model._meta.app_config.name
        for model in apps.get_models(include_auto_created=True)
        if model._meta.app_config.name in APPS
    }


def statements(app: str) -> Iterator[tuple[str, str]]:
    """Return the SQL of an app, each with the name of its file."""
    for path in sorted((ROOT / app).rglob("*.sql")):
        yield name_of(path), path.read_text()
    for path in sorted((ROOT / app).rglob("*.py")):
        if "migrations" not in path.parts:
            for text in literals(ast.parse(path.read_text())):
                if STATEMENT.search(text):
                    yield name_of(path), text


def literals(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            value = node.value
            yield value if isinstance(value, str) else value.decode("latin1")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tables_in(sql: str) -> set[str]:
    return set(NAME.findall(IGNORED.sub("", sql)))


def test_no_app_names_a_table_of_another_app_in_sql():
    owner = owners()
    foreign = {
        (file, table)
        for app in APPS
        for file, sql in statements(app)
        for table in tables_in(sql)
        if owner.get(table, app) != app
    }

    assert foreign == set()


def test_the_scan_finds_tables_in_files_and_in_code():
    found = {(file, table) for file, sql in statements("sessions_app") for table in tables_in(sql)}

    assert ("sessions_app/sql/lanes.sql", "agent_sessions") in found
    assert ("sessions_app/lanes/run_queue.py", "subagent_spawns") in found
