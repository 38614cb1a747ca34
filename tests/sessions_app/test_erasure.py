"""A whole workspace can be erased, and nothing less."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, transaction

from orchestrator.workspaces import erase_workspace
from sessions_app.accept import accept_event
from sessions_app.models import Run, Session, SessionEvent
from tenants.models import Workspace


def test_an_erased_workspace_takes_its_logs_with_it(
    session, principal, workspace, foreign_workspace
):
    accept_event(principal, session.pk, type="user.message", payload={"text": "forget me"})

    erase_workspace(workspace)

    assert not Session.objects.exists()
    assert not SessionEvent.objects.exists()
    assert not Run.objects.exists()
    assert Workspace.objects.get() == foreign_workspace


def test_the_log_of_another_workspace_is_kept(session, principal, foreign_workspace):
    accept_event(principal, session.pk, type="user.message", payload={"text": "keep me"})
    erase_workspace(foreign_workspace)

    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        session.events.all().delete()
