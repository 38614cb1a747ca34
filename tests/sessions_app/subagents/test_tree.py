"""Tests of the tree below a session and of the statistics of tools."""

from __future__ import annotations

import pytest
from django.utils import timezone

from sessions_app.models import Session, SubagentSpawn, ToolExecution
from tests.factories import execution
from tests.factories import session as make_session

pytestmark = pytest.mark.django_db


def child_of(parent: Session) -> Session:
    child = make_session(parent.workspace)
    Session.objects.filter(pk=child.pk).update(
        parent=parent, ancestors=[*parent.ancestors, parent.pk]
    )
    child.refresh_from_db()
    SubagentSpawn.objects.create(
        workspace=parent.workspace,
        parent_session=parent,
        child_session=child,
        tool_use_id=f"tu_{child.pk.hex}",
        task="Count.",
    )
    return child


def test_the_tree_lists_parents_before_children(api, workspace):
    top = make_session(workspace)
    child = child_of(top)
    grandchild = child_of(child)
    found = api.get(f"/api/v1/sessions/{top.pk}/tree/").json()["results"]
    assert [(one["id"], one["depth"]) for one in found] == [
        (str(child.pk), 1),
        (str(grandchild.pk), 2),
    ]
    assert found[0]["task_status"] == "running"


def test_the_queries_of_a_tree_do_not_grow_with_its_width(
    api, workspace, django_assert_max_num_queries
):
    top = make_session(workspace)
    for _ in range(5):
        child_of(top)
    with django_assert_max_num_queries(8):
        assert len(api.get(f"/api/v1/sessions/{top.pk}/tree/").json()["results"]) == 5


def test_calls_of_a_tool_are_counted_by_state(api, workspace, foreign_workspace):
    execution(foreign_workspace)
    done = execution(workspace)
    now = timezone.now()
    ToolExecution.objects.filter(pk=done.pk).update(
        state="completed", started_at=now, finished_at=now
    )
    execution(workspace)
    (line,) = api.get("/api/v1/analytics/tools/").json()["results"]
    assert (line["name"], line["calls"], line["completed"], line["unknown"]) == ("read", 2, 1, 1)
    assert line["p50_ms"] == 0


@pytest.mark.parametrize("days", ["0", "-1", "many", "9999"])
def test_an_invalid_number_of_days_is_refused(api, days):
    assert api.get(f"/api/v1/analytics/tools/?days={days}").status_code == 400
