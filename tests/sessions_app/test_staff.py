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
from tenants.models import User
from tests.sessions_app.conftest import OWNER, newest, serve


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
