"""Tests that the supervisor's frequent queries do not grow with ended workflows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection

from orchestrator.engine import recovery

pytestmark = pytest.mark.django_db

MANY = """
INSERT INTO workflows (id, workspace_id, key, name, version, params, priority, concurrency_key, status,
                       created_at, queued_at, finished_at, last_seq, parent_id)
SELECT gen_random_uuid(), w.workspace_id, w.key || n, w.name, 1, '{}', 0, '', 'complete',
       now(), now(), now(), 1, w.id
  FROM workflows w, generate_series(1, 5000) n WHERE w.id = %s
"""


@pytest.mark.parametrize("query", [recovery.UNSETTLED, recovery.ABANDONED])
def test_ended_workflows_are_not_read(define, begin, query):
    define(lambda self, event, step: step.sleep("s", 9))
    alive = begin()
    with connection.cursor() as cursor:
        cursor.execute(MANY, [alive.pk])
        cursor.execute("ANALYZE workflows")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {query}", [500])
        ((told,),) = cursor.fetchall()
    plan = told if isinstance(told, list) else json.loads(told)

    assert whole_reads(plan[0]["Plan"]) == []


def whole_reads(node: dict[str, Any]) -> list[str]:
    """Return the tables of workflows that the plan scans completely."""
    own = [node["Relation Name"]] if node["Node Type"] == "Seq Scan" else []
    below = [name for inner in node.get("Plans", []) for name in whole_reads(inner)]
    return [name for name in own + below if name == "workflows"]
