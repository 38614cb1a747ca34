"""Tests that the eight tables of the design keep their names."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connection

TABLES = {
    "agent_sessions": "sessions_app.Session",
    "session_messages": "sessions_app.SessionEvent",
    "tool_executions": "sessions_app.ToolExecution",
    "agent_memory_entries": "memory.MemoryEntry",
    "agent_tool_policies": "tools_app.ToolPolicy",
    "agent_run_queue": "sessions_app.Run",
    "subagent_spawns": "sessions_app.SubagentSpawn",
    "agent_context_snapshots": "sessions_app.ContextSnapshot",
}


def models_by_table() -> dict[str, str]:
    return {model._meta.db_table: model._meta.label for model in apps.get_models()}


def test_each_table_belongs_to_its_model():
    known = models_by_table()

    assert len(TABLES) == 8
    assert {table: known.get(table) for table in TABLES} == TABLES


@pytest.mark.django_db
def test_the_database_has_the_eight_tables():
    assert set(TABLES) <= set(connection.introspection.table_names())


@pytest.mark.django_db
@pytest.mark.parametrize("model", apps.get_models(), ids=lambda model: model._meta.label)
def test_the_database_has_every_constraint_and_index_that_its_model_declares(model):
    """Django silently drops a conditional constraint when its column loses its own index."""
    declared = {one.name for one in (*model._meta.constraints, *model._meta.indexes)}

    with connection.cursor() as cursor:
        known = connection.introspection.get_constraints(cursor, model._meta.db_table)

    assert declared <= set(known)
