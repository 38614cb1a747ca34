"""Tests of erasing a workspace with its logs."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, transaction

from orchestrator.workspaces import erase_workspace
from sessions_app.accept import accept_event
from sessions_app.models import Run, Session, SessionEvent
from tenants.models import Workspace


def test_erasing_a_workspace_deletes_its_logs(session, principal, workspace, foreign_workspace):
    accept_event(principal, session.pk, type="user.message", payload={"text": "forget me"})

    erase_workspace(workspace)

    assert not Session.objects.exists()
    assert not SessionEvent.objects.exists()
    assert not Run.objects.exists()
    assert Workspace.objects.get() == foreign_workspace


def test_erasing_one_workspace_does_not_unlock_the_log_of_another(
    session, principal, foreign_workspace
):
    accept_event(principal, session.pk, type="user.message", payload={"text": "keep me"})
    erase_workspace(foreign_workspace)

    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        session.events.all().delete()
