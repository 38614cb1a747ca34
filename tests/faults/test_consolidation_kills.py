"""Tests that a worker killed during a consolidation loses nothing and that the next one finishes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings

from agents.definitions import create_agent
from agents.models import Agent
from agents.providers.keys import save_key
from memory import proposals
from memory.documents import content_of, write_entry
from memory.models import Consolidation, MemoryEntry, MemoryVersion
from memory.ownership import Owner, person
from orchestrator.workspaces import create_workspace
from sessions_app.consolidation import request_consolidation
from sessions_app.models import Run
from tests.faults.conftest import eventually
from tests.memory.month import CONTRADICTIONS, Judge, documents
from tests.wire.answers import Answer
from tests.wire.openai import OpenAIWire

#: The crash points of a consolidation, in their order.
POINTS = [
    "consolidation_begun",
    "consolidation_answered",
    "consolidation_judged",
    "consolidation_proposed",
    "consolidation_applied",
]


def write_month(agent: Agent) -> None:
    owner = Owner(workspace_id=agent.workspace_id, scope=MemoryEntry.Scope.AGENT, owner_id=agent.pk)
    for path, content in documents().items():
        write_entry(owner=owner, path=path, content=content, author=person(None))


def notes_of(agent: Agent) -> list[str]:
    rows = MemoryEntry.objects.filter(owner_id=agent.pk).kept().select_related("current")
    return sorted(line for entry in rows for line in content_of(entry).splitlines() if line)


@pytest.mark.parametrize("point", POINTS)
def test_a_consolidation_whose_worker_is_killed_is_finished_and_asks_and_writes_once(
    workers, supervisor, point
):
    judge = Judge()
    with OpenAIWire(
        lambda body: Answer(text=(judge.answer(str(body["messages"][-1]["content"])),)),
        models=None,
    ) as wire:
        workspace = create_workspace(name="Faults", owner=None)
        agent = create_agent(
            workspace_id=workspace.pk,
            fields={"name": "Keeper", "provider": "openai", "model": "gpt-6-luna"},
        )
        address = wire.url.removeprefix("http://").split("/")[0]
        # The workers read the key that this process stores.
        secrets = {"SECRET_KEY": settings.SECRET_KEY, "SALT_KEYS": ",".join(settings.SALT_KEY)}
        workers.start(WORKERS="1", EGRESS_ALLOWED_PRIVATE=address, **secrets)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("django.conf.settings.EGRESS_ALLOWED_PRIVATE", [address])
            save_key(
                workspace_id=workspace.pk, provider="openai", api_key=wire.key, base_url=wire.url
            )
        proposals.set_choice(agent, applies_itself=True)
        write_month(agent)
        workers.kill_at(point)

        run = request_consolidation(agent, None)
        eventually(Run.objects.filter(pk=run.pk, status="completed").exists)

        assert workers.was_killed, f"no worker reached {point}"
        asked = [one for one in wire.requests if "chat/completions" in one.path]
    row = Consolidation.objects.get(agent=agent)
    assert (row.status, row.remark) == ("applied", "")
    left = notes_of(agent)
    assert len(left) == 40
    assert not {f"- {old}" for old in CONTRADICTIONS} & set(left)
    # Every document was written at most once, and the model was asked once about each group.
    for entry in MemoryEntry.objects.filter(owner_id=agent.pk):
        assert MemoryVersion.objects.filter(entry=entry).count() <= 2
    texts = [str(one.body["messages"][-1]["content"]) for one in asked]
    assert len(texts) == len(set(texts))


def test_the_kill_points_are_the_crash_points_of_the_consolidation():
    code = Path("sessions_app/consolidation.py").read_text()

    assert {p for p in POINTS if f'crash_point("{p}")' in code} == set(POINTS)
    assert code.count('crash_point("') == len(POINTS)
