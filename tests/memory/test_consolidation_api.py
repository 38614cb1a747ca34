"""Tests of consolidations over REST and by the command."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from agents.models import Agent
from memory import proposals
from memory.models import Consolidation, MemoryEntry
from sessions_app.models import Run
from tests.conftest import key_client
from tests.sessions_app.conftest import serve

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/consolidations/"


@pytest.fixture
def waiting(agent: Agent, remember, api) -> str:
    """Request a consolidation that finds a duplicate, and return its id."""
    remember("daily/2026-09-01.md", "- Exports run at night.\n- The cat sleeps.\n")
    remember("daily/2026-09-02.md", "- Exports run at night.\n- Rain in Basel.\n")
    queued = api.post(URL, {"agent": str(agent.pk)}, format="json")
    assert queued.status_code == 202
    serve(Run.objects.get(pk=queued.json()["run_id"]).session_id)
    return api.get(URL, {"agent": str(agent.pk)}).json()["results"][0]["id"]


def lines() -> list[str]:
    rows = MemoryEntry.objects.kept().select_related("current")
    return sorted(line for entry in rows for line in entry.current.content.splitlines())


def test_a_proposal_is_read_applied_and_undone(waiting, api):
    before = lines()
    shown = api.get(f"{URL}{waiting}/").json()
    assert shown["status"] == "waiting"
    [change] = shown["changes"]
    assert change["content"] == "- The cat sleeps.\n"
    assert change["reasons"][0]["kind"] == "duplicate"
    assert change["reasons"][0]["kept_in"] == "daily/2026-09-02.md"

    applied = api.post(f"{URL}{waiting}/apply/")

    assert applied.json()["status"] == "applied"
    assert applied.json()["changes"][0]["outcome"] == "applied"
    assert len(lines()) == 3
    again = api.post(f"{URL}{waiting}/apply/")
    assert (again.status_code, again.json()["code"]) == (409, "consolidation_over")
    assert api.post(f"{URL}{waiting}/undo/").json()["status"] == "undone"
    assert lines() == before


def test_a_viewer_reads_and_decides_nothing(waiting, workspace, agent):
    viewer = key_client(workspace, "read")

    assert viewer.get(f"{URL}{waiting}/").status_code == 200
    for act in ("apply", "discard", "undo"):
        assert viewer.post(f"{URL}{waiting}/{act}/").status_code == 403
    assert viewer.post(URL, {"agent": str(agent.pk)}, format="json").status_code == 403
    assert Consolidation.objects.get().status == "waiting"


def test_the_choice_of_an_agent_waits_for_a_person_by_default(agent, api, workspace):
    url = f"/api/v1/agents/{agent.pk}/consolidation/"

    assert api.get(url).json() == {"applies_itself": False, "budget": "0.50"}
    changed = api.patch(url, {"applies_itself": True}, format="json")
    assert changed.json() == {"applies_itself": True, "budget": "0.50"}
    assert api.patch(url, {"budget": "-1"}, format="json").status_code == 400
    assert api.patch(url, {"bugdet": "1"}, format="json").status_code == 400
    runner = key_client(workspace, "run")
    assert runner.patch(url, {"applies_itself": False}, format="json").status_code == 403
    assert proposals.choice_of(agent).applies_itself


def command(*words: object) -> str:
    out = StringIO()
    call_command("consolidate", *map(str, words), stdout=out)
    return out.getvalue()


def test_the_command_queues_lists_and_decides(waiting, agent):
    assert "duplicate" in command(agent.pk, "--list")
    assert "applied" in command(agent.pk, "--apply", waiting)
    assert "undone" in command(agent.pk, "--undo", waiting)
    with pytest.raises(CommandError, match="is undone"):
        command(agent.pk, "--discard", waiting)
    assert "Queued as run" in command(agent.pk)
    with pytest.raises(CommandError, match="No agent matches"):
        command("Nobody")
