"""Tests of what a workspace stores in the database: counted where it is written, and limited."""

from __future__ import annotations

import threading
from secrets import token_urlsafe
from typing import Any

import pytest
from django.db import connection, transaction

from core.ids import uuid7
from memory import documents
from memory.models import MemoryEntry
from memory.ownership import Owner, person
from orchestrator.workspaces import erase_workspace
from sessions_app.log.transfer import import_session
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent
from sessions_app.sessions import fork, get_or_create_session
from tenants.exceptions import DatabaseQuotaReached
from tenants.models import StorageGrowth, Workspace, WorkspaceStorage
from tenants.quotas import fold_storage
from tests.factories import execution
from tests.sessions_app import long_talk
from tests.sessions_app.stage import say

pytestmark = pytest.mark.django_db
MEGABYTE = 1024 * 1024
#: Text that PostgreSQL cannot compress.
TEXT = token_urlsafe(70_000)


@pytest.fixture(autouse=True)
def quota(settings: Any) -> None:
    settings.WORKSPACE_DATABASE_MB = 1


def stored(workspace: Workspace) -> int:
    fold_storage()
    row = WorkspaceStorage.objects.filter(workspace=workspace).first()
    return row.bytes if row else 0


def growth(workspace: Workspace, act: Any) -> int:
    before = stored(workspace)
    act()
    return stored(workspace) - before


def append(session: Session, text: str = TEXT) -> None:
    append_events(
        session.pk, [NewEvent(type=SessionEvent.Type.AGENT_MESSAGE, payload={"text": text})]
    )


def write(workspace: Workspace, content: str = TEXT, path: str = "notes.md") -> MemoryEntry:
    return documents.write_entry(
        owner=Owner(
            workspace_id=workspace.pk, scope=MemoryEntry.Scope.WORKSPACE, owner_id=workspace.pk
        ),
        path=path,
        content=content,
        author=person(None),
    )


def fill(workspace: Workspace) -> None:
    """Let the workspace reach its quota, as its own writes would."""
    StorageGrowth.objects.create(workspace=workspace, bytes=2 * MEGABYTE)
    fold_storage()


def about(size: int) -> Any:
    return pytest.approx(size, abs=2_000)


def test_what_is_written_is_counted(workspace, session):
    lines = [b'{"type": "agent.message", "payload": {"text": "%s"}}' % TEXT.encode()]

    assert growth(workspace, lambda: append(session)) == about(len(TEXT))
    session.refresh_from_db()
    assert growth(workspace, lambda: fork(session, 1, None)) == about(len(TEXT))
    assert growth(workspace, lambda: import_session(session.agent, iter(lines))) == about(len(TEXT))
    assert growth(workspace, lambda: write(workspace)) == about(len(TEXT))


def test_a_tool_call_is_counted_with_its_output_once(workspace):
    made = execution(workspace)
    before = stored(workspace)
    for _ in range(2):
        made.output = TEXT
        made.save()

    assert stored(workspace) - before == about(len(TEXT))


def test_redacted_text_makes_room(workspace):
    entry = write(workspace)
    before = stored(workspace)

    documents.redact(entry, by=None)

    assert before - stored(workspace) == about(len(TEXT))


def test_a_full_workspace_takes_no_new_work_and_keeps_what_it_has(
    workspace, agent, session, api, principal
):
    say(session, principal, "before")
    entry = write(workspace, "short")
    fill(workspace)
    session.refresh_from_db()

    with pytest.raises(DatabaseQuotaReached, match="Nothing was lost"):
        say(session, principal, "after")
    with pytest.raises(DatabaseQuotaReached):
        write(workspace, path="more.md")
    with pytest.raises(DatabaseQuotaReached):
        documents.change_entry(entry, author=person(None), content="longer than before")
    with pytest.raises(DatabaseQuotaReached):
        fork(session, 1, None)
    with pytest.raises(DatabaseQuotaReached):
        import_session(agent, iter([]))
    answer = api.post(
        f"/api/v1/sessions/{session.pk}/events/",
        {"type": "user.message", "payload": {"text": "after"}},
        format="json",
    )

    assert (answer.status_code, answer.json()["code"]) == (507, "database_quota")
    assert session.events.get().payload["text"] == "before"
    assert MemoryEntry.objects.get().current.content == "short"


def test_a_run_in_a_full_workspace_ends_with_the_reason_and_can_be_repeated(workspace, session):
    long_talk.say(session, "hello")
    fill(workspace)
    long_talk.serve(session)

    run = session.runs.get()
    assert (run.status, run.error["code"]) == ("failed", "database_quota")


def test_another_workspace_goes_on(workspace, foreign_workspace):
    fill(workspace)

    assert write(foreign_workspace).pk


def test_a_full_workspace_can_delete_and_redact_and_then_goes_on(workspace, settings):
    entry = write(workspace)
    StorageGrowth.objects.create(workspace=workspace, bytes=MEGABYTE - stored(workspace))
    fold_storage()
    with pytest.raises(DatabaseQuotaReached):
        write(workspace, path="more.md")

    documents.redact(entry, by=None)
    fold_storage()

    assert write(workspace, "short", path="more.md").pk


def test_another_quota_counts_without_a_write(workspace, settings):
    fill(workspace)
    settings.WORKSPACE_DATABASE_MB = 0
    fold_storage()

    assert write(workspace).pk


def test_an_erased_workspace_leaves_no_sums(foreign_workspace):
    fill(foreign_workspace)
    StorageGrowth.objects.create(workspace=foreign_workspace, bytes=5)
    erase_workspace(foreign_workspace)
    StorageGrowth.objects.create(workspace_id=uuid7(), bytes=5)
    fold_storage()

    assert not WorkspaceStorage.objects.filter(workspace_id=foreign_workspace.pk).exists()
    assert not StorageGrowth.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_sessions_that_write_at_once_wait_for_no_other_and_every_byte_is_counted(workspace, agent):
    sessions = [get_or_create_session(agent=agent, session_key=str(n))[0] for n in range(4)]
    before, stop = stored(workspace), threading.Event()

    def write_many(session: Session) -> None:
        try:
            for _ in range(5):
                append(session)
        finally:
            connection.close()

    def fold_many() -> None:
        try:
            while not stop.is_set():
                fold_storage()
        finally:
            connection.close()

    folders = [threading.Thread(target=fold_many) for _ in range(2)]
    writers = [threading.Thread(target=write_many, args=(one,)) for one in sessions]
    with transaction.atomic():
        append(sessions[0], "held open")  # its growth is not committed, and delays nobody
        for thread in (*folders, *writers[1:]):
            thread.start()
        for thread in writers[1:]:
            thread.join(60)
            assert not thread.is_alive()
    writers[0].start()
    writers[0].join()
    stop.set()
    for thread in folders:
        thread.join()

    assert stored(workspace) - before == pytest.approx(20 * len(TEXT), rel=0.02)
