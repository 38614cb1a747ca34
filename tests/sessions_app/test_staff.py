"""Tests of the staff's actions on sessions and runs in the admin."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from agents.exceptions import ProviderRejected
from agents.providers.base import TextDelta
from sessions_app.accept import accept_event
from sessions_app.lanes import run_queue
from sessions_app.models import Run, Session
from sessions_app.sessions import get_or_create_session
from tenants.models import User
from tests.factories import agent as make_agent
from tests.sessions_app.conftest import OWNER, newest, serve
from tests.statements import recorded_statements


@pytest.fixture
def staff(db) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("staff@example.com"))
    return client


def act(staff: Client, model: str, action: str, *rows: Session | Run) -> str:
    data = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    path = reverse(f"admin:sessions_app_{model}_changelist")
    answer = staff.post(path, data, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def search(staff: Client, text: str) -> set[str]:
    answer = staff.get(reverse("admin:sessions_app_session_changelist"), {"q": text})
    return {session.title for session in answer.context["cl"].result_list}


def test_staff_find_sessions_by_id_words_agent_and_workspace(staff, agent, foreign_workspace):
    other = Session.objects.create(
        workspace=foreign_workspace,
        agent=make_agent(foreign_workspace),
        agent_version=make_agent(foreign_workspace).current,
        title="Elsewhere",
    )
    for title in ("Invoice of May", "Report"):
        get_or_create_session(agent=agent, title=title)

    assert search(staff, "voice") == {"Invoice of May"}
    assert search(staff, str(other.pk)) == {"Elsewhere"}
    assert search(staff, agent.current.name) == {"Invoice of May", "Report"}
    assert search(staff, foreign_workspace.name) == {"Elsewhere"}
    assert search(staff, "nothing like it") == set()
    assert search(staff, "") == {"Invoice of May", "Report", "Elsewhere"}


def test_no_search_of_staff_compares_its_text_with_every_session(staff, agent, monkeypatch):
    monkeypatch.setattr("sessions_app.search.FIRST_SESSIONS", 2)
    for number in range(4):
        get_or_create_session(agent=agent, title=f"Session {number}")
    with recorded_statements() as statements:
        assert search(staff, "session 0") == {"Session 0"}

    comparing = [one for one in statements if "title" in one and "LIKE" in one]
    assert comparing
    assert all("LIMIT 2" in one for one in comparing), "only the newest are compared without index"


def send(session: Session, principal) -> Run:
    sent = accept_event(principal, session.pk, type="user.message", payload={"text": "go"})
    return Run.objects.get(pk=sent.run_id)


def test_staff_stop_a_session(staff, session, principal):
    run = send(session, principal)
    run_queue.claim(session.pk, OWNER)

    assert "Runs stopped: 1." in act(staff, "session", "stop", session)
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert newest(session, "user.interrupt").payload == {"note": "Stopped by staff."}
    assert "Runs stopped: 0." in act(staff, "session", "stop", session)


def test_staff_can_retry_failed_runs_only(staff, session, principal, script):
    script([ProviderRejected("no")], [TextDelta(text="Now.")])
    failed = send(session, principal)
    serve(session.pk)

    assert "Runs queued again: 1." in act(staff, "run", "retry", failed)
    serve(session.pk)
    failed.refresh_from_db()
    assert (failed.status, failed.result["text"]) == ("completed", "Now.")
    assert "Runs queued again: 0." in act(staff, "run", "retry", failed)
