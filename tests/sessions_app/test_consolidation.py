"""Tests of consolidations from the request to what the agent's memory holds afterwards."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import pytest

from agents.definitions import archive_agent, change_agent
from agents.exceptions import ProviderUnavailable
from core.exceptions import Conflict
from memory import proposals
from memory.documents import Marks, content_of, write_entry
from memory.models import Consolidation, MemoryEntry
from memory.ownership import Owner, person
from sessions_app.consolidation import request_consolidation
from sessions_app.harness import model_call
from sessions_app.log.writer import import_events
from sessions_app.models import Run
from sessions_app.schedules.schedules import create_schedule, run_now
from tenants.billing.credits import set_budget
from tenants.models import ModelCall
from tests.memory.month import CONTRADICTIONS, EXACT, FACTS, NEAR, PARAPHRASED, Judge, documents
from tests.sessions_app.conftest import serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def judge(monkeypatch) -> Judge:
    model = Judge()
    monkeypatch.setattr("sessions_app.harness.model_call.provider_for", lambda *_: model)
    monkeypatch.setattr(model_call, "PAUSES", ())
    return model


@pytest.fixture
def judged_agent(agent, judge):
    """Return the agent on a model of a provider, which the judge answers for."""
    change_agent(agent, changes={"provider": "openai", "model": "gpt-6.1-terra"})
    agent.refresh_from_db()
    return agent


def write(agent, path: str, content: str, *, trust: str | None = None, by: UUID | None = None):
    owner = Owner(workspace_id=agent.workspace_id, scope=MemoryEntry.Scope.AGENT, owner_id=agent.pk)
    marks = Marks(trust=MemoryEntry.Trust(trust)) if trust else None
    return write_entry(owner=owner, path=path, content=content, author=person(by), marks=marks)


def write_month(agent) -> None:
    for path, content in documents().items():
        write(agent, path, content)


def consolidate(agent) -> Consolidation:
    run = request_consolidation(agent, None)
    serve(run.session_id)
    run.refresh_from_db()
    assert run.status == "completed", run.error
    return Consolidation.objects.get(pk=run.result["consolidation_id"])


def notes_in(agent) -> list[str]:
    rows = MemoryEntry.objects.filter(owner_id=agent.pk).kept().select_related("current")
    lines = [line for entry in rows for line in content_of(entry).splitlines()]
    return sorted(line.removeprefix("- ") for line in lines if line.strip())


def test_of_a_month_the_duplicates_and_the_outdated_notes_go_and_nothing_else(judged_agent, judge):
    write_month(judged_agent)
    before = notes_in(judged_agent)
    assert len(before) == 80

    row = consolidate(judged_agent)

    assert (row.status, row.remark) == ("waiting", "")
    assert notes_in(judged_agent) == before, "nothing changes before a person says so"
    proposals.apply(row, by=None)
    assert notes_in(judged_agent) == expected_notes()
    reasons = [reason for change in row.changes.all() for reason in change.reasons]
    assert sorted(reason["kind"] for reason in reasons) == ["duplicate"] * 30 + ["outdated"] * 10
    assert all(reason["why"] and reason["kept"] and reason["text"] for reason in reasons)
    gone = {
        (reason["text"].removeprefix("- "), reason["kept"].removeprefix("- ")) for reason in reasons
    }
    assert {(old, new) for old, new in CONTRADICTIONS.items()} <= gone


def expected_notes() -> list[str]:
    """Return the facts that stay, each once. Of two equal notes either wording may stay."""
    newest = {fact: NEAR.get(fact, fact) for fact in FACTS}
    return sorted([*newest.values(), *CONTRADICTIONS.values()])


def test_without_a_model_only_notes_in_the_same_words_go(agent):
    write_month(agent)

    row = consolidate(agent)
    proposals.apply(row, by=None)

    assert "demo does not judge" in row.remark
    left = notes_in(agent)
    assert len(left) == 60
    assert set(PARAPHRASED.values()) | set(CONTRADICTIONS) <= set(left)
    assert all(left.count(fact) == 1 for fact in EXACT)


# ── The run ──────────────────────────────────────────────────────────────────


def test_groups_without_a_change_are_asked_about_once(judged_agent, judge):
    write_month(judged_agent)
    consolidate(judged_agent)
    first = len(judge.requests)
    assert first > 0
    asked = "\n".join(request.messages[0].text for request in judge.requests)
    assert "geneva office" in asked.lower()

    judge.requests.clear()
    consolidate(judged_agent)

    again = "\n".join(request.messages[0].text for request in judge.requests)
    assert "geneva office" not in again.lower()


def test_the_agents_purse_pays_and_the_budget_is_never_exceeded(judged_agent, judge):
    write_month(judged_agent)
    proposals.set_choice(judged_agent, budget=Decimal(0))

    row = consolidate(judged_agent)

    assert judge.requests == []
    assert "budget" in row.remark
    proposals.set_choice(judged_agent, budget=Decimal("0.50"))
    row = consolidate(judged_agent)
    calls = ModelCall.objects.filter(purpose="memory")
    assert {call.agent_id for call in calls} == {judged_agent.pk}
    assert row.cost == sum(call.cost for call in calls) > 0


def test_an_empty_purse_or_a_failing_model_leaves_what_needs_no_model(judged_agent, monkeypatch):
    write_month(judged_agent)

    class Failing:
        def stream(self, request):
            yield from ()
            raise ProviderUnavailable("It is down.")

    monkeypatch.setattr("sessions_app.harness.model_call.provider_for", lambda *_: Failing())
    row = consolidate(judged_agent)
    assert "It is down." in row.remark
    assert row.changes.exists()

    set_budget(
        workspace_id=judged_agent.workspace_id,
        kind="agent",
        owner_id=judged_agent.pk,
        ceiling=Decimal(0),
    )
    row = consolidate(judged_agent)
    assert "budget of this agent" in row.remark
    assert row.changes.exists()


def test_changes_are_applied_without_a_person_only_where_that_is_chosen(agent):
    write_month(agent)
    assert consolidate(agent).status == "waiting"

    proposals.set_choice(agent, applies_itself=True)
    row = consolidate(agent)

    assert (row.status, row.decided_by) == ("applied", None)
    assert len(notes_in(agent)) == 60


def test_a_second_request_waits_for_the_same_run_and_an_archived_agent_has_none(agent):
    first = request_consolidation(agent, None)
    assert request_consolidation(agent, None) == first
    archive_agent(agent)
    agent.refresh_from_db()
    with pytest.raises(Conflict):
        request_consolidation(agent, None)


def test_a_schedule_consolidates_and_an_agent_has_one_such_schedule(agent, owner):
    write_month(agent)
    fields = {"agent": agent, "name": "Memory", "task": "consolidation", "created_by": owner}
    times = {"kind": "cron", "cron": "0 3 * * *"}
    schedule = create_schedule(workspace_id=agent.workspace_id, **fields, **times)

    firing = run_now(schedule)

    assert firing.outcome == "sent"
    run = Run.objects.get(pk=firing.run_id)
    assert run.purpose == "consolidate"
    serve(run.session_id)
    assert Consolidation.objects.get().status == "waiting"
    with pytest.raises(Conflict):
        create_schedule(workspace_id=agent.workspace_id, **fields, **times)


def test_what_messages_find_counts_as_used(agent, session):
    write(agent, "daily/2026-09-01.md", "- The vault is in the cellar.\n- The cat sleeps.\n")
    text = {"text": "vault cellar: is the vault in the cellar?"}
    import_events(session.pk, [{"type": "user.message", "payload": text}] * 5, None)

    row = consolidate(agent)

    reasons = [reason for change in row.changes.all() for reason in change.reasons]
    assert {reason["text"] for reason in reasons} == {"- The vault is in the cellar."}
    assert {reason["kind"] for reason in reasons} == {"promoted"}
