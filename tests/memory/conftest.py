"""Fixtures: agents, sessions and readers, and a helper to write documents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.models import Agent
from memory.documents import Marks, write_entry
from memory.models import MemoryEntry
from memory.ownership import Reader, owner_within, person
from sessions_app.models import Session
from tenants.models import User, Workspace
from tests import factories

Remember = Callable[..., MemoryEntry]


@pytest.fixture
def agent(workspace: Workspace) -> Agent:
    return factories.agent(workspace)


@pytest.fixture
def session(workspace: Workspace, agent: Agent, owner: User) -> Session:
    assert agent.current
    return Session.objects.create(
        workspace=workspace, agent=agent, agent_version=agent.current, created_by=owner
    )


@pytest.fixture
def reader(workspace: Workspace, agent: Agent, owner: User, session: Session) -> Reader:
    return Reader(
        workspace_id=workspace.pk, agent_id=agent.pk, user_id=owner.pk, session_id=session.pk
    )


def remember_for(
    reader: Reader, path: str, content: str, scope: str = "agent", **extra
) -> MemoryEntry:
    """Write a document in one of the reader's memories."""
    marks = Marks(
        **{name: extra.pop(name) for name in list(extra) if name in Marks.__annotations__}
    )
    return write_entry(
        owner=owner_within(reader, scope),
        path=path,
        content=content,
        author=person(reader.user_id),
        marks=marks,
        **extra,
    )


@pytest.fixture
def remember(reader: Reader) -> Remember:
    def write(path: str, content: str, **extra) -> MemoryEntry:
        return remember_for(reader, path, content, **extra)

    return write
