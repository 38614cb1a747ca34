"""Tests that no query returns memory that its reader may not see."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.documents import find_by_path
from memory.models import MemoryEntry
from memory.ownership import Reader
from memory.recall import Search, recall
from sessions_app.models import Session
from tenants.models import User, Workspace
from tests import factories
from tests.memory.conftest import remember_for

WORDS = ["secret", "plan", "office", "dog", "Monday", "launch", "the", "'", "|", "*", "%"]
TEXT = "The secret plan: the office dog will launch on Monday."
SCOPES = ("workspace", "agent", "user", "session")

pytestmark = pytest.mark.django_db


def reader_in(workspace: Workspace) -> Reader:
    """Return a reader whose four memories each have one document with the same text."""
    session = factories.session(workspace)
    reader = Reader(
        workspace_id=workspace.pk,
        agent_id=session.agent_id,
        user_id=session.created_by_id,
        session_id=session.pk,
    )
    for scope in SCOPES:
        path = f"{scope}-{next(factories.numbers)}.md"
        remember_for(reader, path, f"{TEXT} {path}", scope=scope)
    return reader


@pytest.fixture
def readers(workspace: Workspace, foreign_workspace: Workspace) -> list[Reader]:
    return [reader_in(workspace), reader_in(workspace), reader_in(foreign_workspace)]


def is_visible(reader: Reader, entry: MemoryEntry) -> bool:
    """Restate the rule independently of the product."""
    if entry.workspace_id != reader.workspace_id:
        return False
    if reader.whole_workspace:
        return entry.scope != "user" or entry.user_id == reader.user_id
    return {
        "workspace": True,
        "agent": entry.agent_id == reader.agent_id,
        "user": entry.user_id == reader.user_id,
        "session": entry.session_id == reader.session_id,
    }[entry.scope]


@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_query_shows_what_the_reader_may_not_see(readers, data):
    chosen = data.draw(st.sampled_from(readers))
    narrow = data.draw(st.sets(st.sampled_from(["agent_id", "user_id", "session_id"])))
    keys = {
        name: None if name in narrow else getattr(chosen, name) for name in narrow | {"agent_id"}
    }
    reader = Reader(
        **{
            "workspace_id": chosen.workspace_id,
            "user_id": chosen.user_id,
            "session_id": chosen.session_id,
            "whole_workspace": data.draw(st.booleans()),
            **keys,
        }
    )
    query = " ".join(data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)))
    exact_up_to = data.draw(st.sampled_from([0, 5_000]))
    hits = recall(reader, query, Search(limit=50, thin=False, exact_up_to=exact_up_to))

    found = MemoryEntry.objects.filter(pk__in=[hit.entry_id for hit in hits])
    assert all(is_visible(reader, entry) for entry in found)
    if {"secret", "plan", "office", "dog", "Monday", "launch"} & set(query.split()):
        allowed = [entry for entry in MemoryEntry.objects.all() if is_visible(reader, entry)]
        assert {entry.pk for entry in found} == {entry.pk for entry in allowed}


def test_finding_by_path_obeys_the_same_rule(readers):
    for reader in readers:
        for entry in MemoryEntry.objects.all():
            if is_visible(reader, entry):
                assert find_by_path(reader, entry.path) == entry
            else:
                with pytest.raises(Exception, match="There is no document"):
                    find_by_path(reader, entry.path)


def test_a_reader_of_only_a_workspace_sees_only_shared_memory(readers):
    hits = recall(Reader(workspace_id=readers[0].workspace_id), "secret plan", Search(thin=False))

    assert {hit.scope for hit in hits} == {"workspace"}


def test_a_person_in_two_workspaces_has_two_memories(
    workspace: Workspace, foreign_workspace: Workspace, owner: User
):
    here = Reader(workspace_id=workspace.pk, user_id=owner.pk)
    there = Reader(workspace_id=foreign_workspace.pk, user_id=owner.pk)
    remember_for(here, "a.md", TEXT, scope="user")

    assert recall(here, "secret plan")
    assert recall(there, "secret plan") == []
    assert not Session.objects.exists()
