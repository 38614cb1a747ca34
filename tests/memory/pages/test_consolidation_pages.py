"""Tests of the pages of consolidations."""

from __future__ import annotations

import pytest
from django.urls import reverse

from memory import proposals
from memory.models import Consolidation, MemoryEntry
from sessions_app.models import Run, Schedule
from tests.sessions_app.conftest import serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waiting(agent, remember, browser_client) -> Consolidation:
    remember("daily/2026-09-01.md", "- Exports run at <night>.\n- The cat sleeps.\n")
    remember("daily/2026-09-02.md", "- Exports run at <night>.\n- Rain in Basel.\n")
    browser_client.post(reverse("memory_consolidation_start"), {"agent": agent.pk})
    serve(Run.objects.get(purpose="consolidate").session_id)
    return Consolidation.objects.get()


def decide(browser_client, row: Consolidation, decision: str):
    return browser_client.post(reverse("memory_consolidation_decide", args=[row.pk, decision]))


def test_a_proposal_shows_each_change_with_its_reason_and_diff(waiting, browser_client, agent):
    listed = browser_client.get(reverse("memory_consolidations")).content.decode()
    assert reverse("memory_consolidation", args=[waiting.pk]) in listed

    page = browser_client.get(reverse("memory_consolidation", args=[waiting.pk])).content.decode()

    assert "Apply 1 change<" in page
    assert "daily/2026-09-02.md says the same." in page
    assert "Exports run at &lt;night&gt;." in page


def test_a_proposal_is_applied_and_undone_by_one_click_each(waiting, browser_client):
    decide(browser_client, waiting, "apply")
    changed = MemoryEntry.objects.select_related("current").get(path="daily/2026-09-01.md")
    assert changed.current.content == "- The cat sleeps.\n"
    page = browser_client.get(reverse("memory_consolidation", args=[waiting.pk])).content.decode()
    assert "Exports run at &lt;night&gt;." in page, "the diff is of the two versions"

    decide(browser_client, waiting, "undo")
    changed = MemoryEntry.objects.select_related("current").get(path="daily/2026-09-01.md")
    assert changed.current.content.startswith("- Exports run")
    second = decide(browser_client, waiting, "undo")
    assert second.status_code == 302
    assert decide(browser_client, waiting, "explode").status_code == 404


def test_the_settings_of_an_agent_choose_when_and_whether_a_person_is_asked(browser_client, agent):
    url = reverse("memory_consolidation_settings", args=[agent.pk])

    browser_client.post(url, {"applies_itself": "1", "cron": "0 3 * * *", "budget": "1.25"})

    choice = proposals.choice_of(agent)
    assert (choice.applies_itself, str(choice.budget)) == (True, "1.25")
    assert Schedule.objects.get().task == "consolidation"
    page = browser_client.get(f"{reverse('memory_consolidations')}?agent={agent.pk}")
    assert "Every night at 3:00" in page.content.decode()
    browser_client.post(url, {"applies_itself": "", "cron": "", "budget": "1.25"})
    assert not proposals.choice_of(agent).applies_itself
    assert not Schedule.objects.exists()
