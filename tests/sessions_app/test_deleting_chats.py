"""Tests of deleting a chat with its branches, sub-agents, log and files."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, transaction

from core.exceptions import Forbidden
from sessions_app.accept import accept_event
from sessions_app.branches import branch
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.resources.files import session_folder, store_file
from sessions_app.sessions import delete_chat, get_or_create_session
from tenants.access import principal_of_user
from tenants.models import Membership
from tests.factories.base import user

pytestmark = pytest.mark.django_db(transaction=True)


def fill(session, principal) -> None:
    accept_event(principal, session.pk, type="user.message", payload={"text": "forget me"})
    store_file(session, "a.txt", [b"hello"])
    session.refresh_from_db()


def test_a_deleted_chat_leaves_no_event_run_branch_or_file(session, principal, agent):
    kept, _ = get_or_create_session(agent=agent, created_by_id=principal.user_id)
    fill(kept, principal)
    fill(session, principal)
    child, _ = get_or_create_session(agent=agent, parent=session)
    made = branch(session, 1)
    folders = [session_folder(one).root for one in (session, made)]
    assert all(folder.exists() for folder in folders)
    session.refresh_from_db()

    delete_chat(principal, session)

    assert list(Session.objects.all()) == [kept]
    assert set(SessionEvent.objects.values_list("session_id", flat=True)) == {kept.pk}
    assert set(Run.objects.values_list("session_id", flat=True)) == {kept.pk}
    assert not any(folder.exists() for folder in folders)
    assert child.pk is not None


def test_deleting_one_chat_does_not_unlock_the_log_of_another(session, principal, agent):
    kept, _ = get_or_create_session(agent=agent, created_by_id=principal.user_id)
    fill(kept, principal)

    with transaction.atomic():
        delete_chat(principal, session)
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            kept.events.all().delete()


def test_a_member_deletes_only_their_own_chats_and_an_admin_all(session, principal, workspace):
    other = user()
    Membership.objects.create(workspace=workspace, user=other, role="builder")

    with pytest.raises(Forbidden):
        delete_chat(principal_of_user(other, workspace.pk), session)
    delete_chat(principal, session)

    assert not Session.objects.exists()


def test_rest_archives_a_session_unless_it_is_deleted_forever(api, session):
    assert api.delete(f"/api/v1/sessions/{session.pk}/").status_code == 204
    assert Session.objects.get().archived_at
    assert api.delete(f"/api/v1/sessions/{session.pk}/?forever=true").status_code == 204
    assert not Session.objects.exists()
