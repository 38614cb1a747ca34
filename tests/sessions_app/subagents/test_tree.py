"""The tree below a session, and how tools fare."""

from __future__ import annotations

import pytest
from django.utils import timezone

from sessions_app.models import Session, SubagentSpawn, ToolExecution
from tests.factories import execution
from tests.factories import session as make_session

pytestmark = pytest.mark.django_db


def below(parent: Session) -> Session:
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


def test_the_tree_lists_every_session_below_with_parents_first(api, workspace):
    top = make_session(workspace)
    child = below(top)
    grandchild = below(child)
    found = api.get(f"/api/v1/sessions/{top.pk}/tree/").json()["results"]
    assert [(one["id"], one["depth"]) for one in found] == [
        (str(child.pk), 1),
        (str(grandchild.pk), 2),
    ]
    assert found[0]["task_status"] == "running"


def test_the_tree_is_one_query_however_wide(api, workspace, django_assert_max_num_queries):
    top = make_session(workspace)
    for _ in range(5):
        below(top)
    with django_assert_max_num_queries(8):
        assert len(api.get(f"/api/v1/sessions/{top.pk}/tree/").json()["results"]) == 5


def test_tools_are_counted_by_what_became_of_their_calls(api, workspace, foreign_workspace):
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
def test_days_that_make_no_sense_are_refused(api, days):
    assert api.get(f"/api/v1/analytics/tools/?days={days}").status_code == 400
