"""Drafts of agents: changes, conflicts, undo and discard."""

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

WHO = Author()


@pytest.fixture
def agent(workspace):
    return make_agent(workspace)


def change(agent, **fields):
    return drafts.change(agent, fields, author=WHO)


def test_a_change_stays_in_the_draft_and_one_that_goes_back_leaves_it_empty(agent):
    name = agent.current.name
    drafted = change(agent, name="Other", temperature=0.5)
    assert drafted.row.fields == {"name": "Other", "temperature": 0.5}
    assert Agent.objects.get(pk=agent.pk).current.name == name
    assert change(agent, name=name, temperature=None).row.fields == {}
    assert drafts.read(agent).row.revision == 2


def test_a_wrong_field_changes_nothing(agent):
    with pytest.raises(InvalidFields):
        change(agent, name="")
    with pytest.raises(InvalidFields):
        change(agent, colour="red")
    assert drafts.read(agent).row.revision == 0


@pytest.mark.django_db(transaction=True)
def test_of_two_who_change_one_draft_one_wins(agent):
    def attempt(name: str) -> str:
        try:
            drafts.change(agent, {"name": name}, author=WHO, revision=0)
            return name
        except DraftConflict as fault:
            return str(fault.extra["current"]["revision"])
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=2) as pool:
        said = sorted(pool.map(attempt, ["Ada", "Bob"]))

    assert said[0] == "1"
    assert drafts.read(agent).fields["name"] == said[1]


def test_the_door_answers_a_stale_writer_with_the_newer_draft(api, agent):
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
def test_the_door_says_where_in_the_body_it_is_wrong(api, agent, body, pointer):
    refused = api.patch(f"/api/v1/agents/{agent.pk}/draft/", body, format="json")

    assert refused.status_code == 400
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


def test_changes_are_undone_one_by_one_the_newest_first(agent):
    was = agent.current.name
    change(agent, name="One")
    change(agent, name="Two")
    newer, older = open_changes(agent)
    with pytest.raises(Conflict, match="newer change first"):
        undo(agent, older.pk, author=WHO)
    assert undo(agent, newer.pk, author=WHO).fields["name"] == "One"
    with pytest.raises(Conflict, match="already undone"):
        undo(agent, newer.pk, author=WHO)
    assert undo(agent, older.pk, author=WHO).fields["name"] == was
    assert list(open_changes(agent)) == []
    assert drafts.read(agent).row.is_empty


def test_a_canvas_goes_back_step_by_step(agent):
    graphs = [[{"id": "go", "type": "trigger"}], [{"id": "go", "type": "trigger", "name": "Go"}]]
    for number, nodes in enumerate(graphs):
        revisions.save(agent, nodes=nodes, edges=[], revision=number, author=WHO)
        drafts.record_canvas_change(agent, before=number, after=number + 1, author=WHO)
    newer, older = open_changes(agent)
    undo(agent, newer.pk, author=WHO)
    assert revisions.read(agent).graph.nodes[0].name == ""
    undo(agent, older.pk, author=WHO)
    assert revisions.read(agent).graph.is_empty


def test_a_draft_that_is_thrown_away_takes_an_unpublished_agent_along(workspace, agent):
    change(agent, name="Other")
    discard(agent, author=WHO)
    assert drafts.read(agent).row.is_empty
    assert not open_changes(agent).exists()
    new = create_draft_agent(workspace_id=workspace.pk, fields={"name": "New"})
    discard(new, author=WHO)
    assert Agent.objects.get(pk=new.pk).archived_at


def test_an_agent_that_is_only_a_draft_is_not_offered_and_is_called_as_its_draft_says(
    api, workspace
):
    new = create_draft_agent(workspace_id=workspace.pk, fields={"name": "New"})
    change(new, name="Newer")
    shown = api.get(f"/api/v1/agents/{new.pk}/").json()
    assert (shown["name"], shown["version"], shown["is_draft"]) == ("Newer", 0, True)
    assert new.pk not in Agent.objects.offered().values_list("pk", flat=True)
    assert api.post("/api/v1/sessions/", {"agent": str(new.pk)}, format="json").status_code == 404
    assert api.patch(f"/api/v1/agents/{new.pk}/", {"name": "X"}, format="json").status_code == 409
    assert AgentVersion.objects.published().filter(agent=new).count() == 0


def test_a_call_that_is_repeated_is_known(agent):
    author = Author(session_id=agent.pk, run_id=agent.pk, call_id="c1")
    assert not drafts.written_by(agent, author)
    drafts.change(agent, {"name": "Other"}, author=author)
    assert drafts.written_by(agent, author)
    assert DraftChange.objects.get().session_id == agent.pk
