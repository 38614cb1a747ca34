"""Tests of an agent's draft: changes, conflicts, undo and discard."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from agents import drafts
from agents.canvas import revisions
from agents.canvas.revisions import Author
from agents.drafts import create_draft_agent, discard, open_changes, undo
from agents.exceptions import DraftConflict
from agents.models import Agent, AgentVersion, DraftChange
from core.exceptions import Conflict, InvalidFields
from tests.factories import agent as make_agent

AUTHOR = Author()


@pytest.fixture
def agent(workspace):
    return make_agent(workspace)


def change(agent, **fields):
    return drafts.change(agent, fields, author=AUTHOR)


def test_a_change_stays_in_the_draft_and_reverting_it_empties_the_draft(agent):
    name = agent.current.name
    drafted = change(agent, name="Other", temperature=0.5)
    assert drafted.row.fields == {"name": "Other", "temperature": 0.5}
    assert Agent.objects.get(pk=agent.pk).current.name == name
    assert change(agent, name=name, temperature=None).row.fields == {}
    assert drafts.read(agent).row.revision == 2


def test_an_invalid_field_changes_nothing(agent):
    with pytest.raises(InvalidFields):
        change(agent, name="")
    with pytest.raises(InvalidFields):
        change(agent, colour="red")
    assert drafts.read(agent).row.revision == 0


@pytest.mark.django_db(transaction=True)
def test_one_of_two_concurrent_changes_to_a_draft_wins(agent):
    def attempt(name: str) -> str:
        try:
            drafts.change(agent, {"name": name}, author=AUTHOR, revision=0)
            return name
        except DraftConflict as fault:
            return str(fault.extra["current"]["revision"])
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = sorted(pool.map(attempt, ["Ada", "Bob"]))

    assert outcomes[0] == "1"
    assert drafts.read(agent).fields["name"] == outcomes[1]


def test_a_stale_patch_is_refused_with_the_newer_draft(api, agent):
    at = f"/api/v1/agents/{agent.pk}/draft/"
    first = api.patch(at, {"revision": 0, "fields": {"name": "Ada"}}, format="json")
    second = api.patch(at, {"revision": 0, "fields": {"name": "Bob"}}, format="json")
    assert (first.status_code, second.status_code) == (200, 409)
    assert second.json()["current"]["fields"]["name"] == "Ada"
    assert second.json()["code"] == "draft_conflict"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"fields": {"temperature": 9}}, "#/fields/temperature"),
        ({"policy": {"profile": "nothing"}}, "#/policy/profile"),
    ],
)
def test_an_error_points_to_the_invalid_field(api, agent, body, pointer):
    refused = api.patch(f"/api/v1/agents/{agent.pk}/draft/", body, format="json")

    assert refused.status_code == 400
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


def test_changes_are_undone_newest_first(agent):
    was = agent.current.name
    change(agent, name="One")
    change(agent, name="Two")
    newer, older = open_changes(agent)
    with pytest.raises(Conflict, match="newer change first"):
        undo(agent, older.pk, author=AUTHOR)
    assert undo(agent, newer.pk, author=AUTHOR).fields["name"] == "One"
    with pytest.raises(Conflict, match="already undone"):
        undo(agent, newer.pk, author=AUTHOR)
    assert undo(agent, older.pk, author=AUTHOR).fields["name"] == was
    assert list(open_changes(agent)) == []
    assert drafts.read(agent).row.is_empty


def test_changes_of_a_canvas_are_undone_step_by_step(agent):
    graphs = [[{"id": "go", "type": "trigger"}], [{"id": "go", "type": "trigger", "name": "Go"}]]
    for number, nodes in enumerate(graphs):
        revisions.save(agent, nodes=nodes, edges=[], revision=number, author=AUTHOR)
        drafts.record_canvas_change(agent, before=number, after=number + 1, author=AUTHOR)
    newer, older = open_changes(agent)
    undo(agent, newer.pk, author=AUTHOR)
    assert revisions.read(agent).graph.nodes[0].name == ""
    undo(agent, older.pk, author=AUTHOR)
    assert revisions.read(agent).graph.is_empty


def test_discarding_a_draft_archives_an_unpublished_agent(workspace, agent):
    change(agent, name="Other")
    discard(agent, author=AUTHOR)
    assert drafts.read(agent).row.is_empty
    assert not open_changes(agent).exists()
    new = create_draft_agent(workspace_id=workspace.pk, fields={"name": "New"})
    discard(new, author=AUTHOR)
    assert Agent.objects.get(pk=new.pk).archived_at


def test_an_unpublished_agent_is_not_offered_and_has_the_name_of_its_draft(api, workspace):
    new = create_draft_agent(workspace_id=workspace.pk, fields={"name": "New"})
    change(new, name="Newer")
    shown = api.get(f"/api/v1/agents/{new.pk}/").json()
    assert (shown["name"], shown["version"], shown["is_draft"]) == ("Newer", 0, True)
    assert new.pk not in Agent.objects.offered().values_list("pk", flat=True)
    assert api.post("/api/v1/sessions/", {"agent": str(new.pk)}, format="json").status_code == 404
    assert api.patch(f"/api/v1/agents/{new.pk}/", {"name": "X"}, format="json").status_code == 409
    assert AgentVersion.objects.published().filter(agent=new).count() == 0


def test_a_draft_remembers_the_tool_call_that_changed_it(agent):
    author = Author(session_id=agent.pk, run_id=agent.pk, call_id="c1")
    assert not drafts.written_by(agent, author)
    drafts.change(agent, {"name": "Other"}, author=author)
    assert drafts.written_by(agent, author)
    assert DraftChange.objects.get().session_id == agent.pk
