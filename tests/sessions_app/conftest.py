"""Fixtures for sessions, and helpers that serve a lane in the test's own thread."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from agents.definitions import create_agent
from agents.models import Agent
from sessions_app.harness.loop import run
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import StopSignal
from sessions_app.models import Session, SessionEvent
from sessions_app.sessions import get_or_create_session
from tenants.access import Principal, principal_of_user
from tenants.models import User, Workspace
from tests.fakes import ScriptedProvider, Step
from tests.sessions_app.stage import effects, stage_tools

__all__ = ["effects", "stage_tools"]
from tests.sessions_app.live.stream_client import key_for

OWNER = uuid4()


@pytest.fixture
def agent(workspace: Workspace, owner: User) -> Agent:
    fields = {"name": "Tester", "system_prompt": "Test.", "provider": "demo", "model": "demo"}
    return create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)


@pytest.fixture
def session(agent: Agent, owner: User) -> Session:
    made, _ = get_or_create_session(agent=agent, created_by_id=owner.pk)
    return made


@pytest.fixture
def principal(owner: User, workspace: Workspace) -> Principal:
    return principal_of_user(owner, workspace.pk)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScriptedProvider]:
    """Answer the next model calls of every agent with these steps."""

    def use(*steps: Step) -> ScriptedProvider:
        provider = ScriptedProvider(*steps)
        monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: provider)
        return provider

    return use


def serve(session_id: UUID, owner: UUID = OWNER) -> None:
    """Run everything that is due in this lane, as a worker would."""
    claim = run_queue.claim(session_id, owner)
    while claim:
        claim = run(claim, owner, StopSignal())


def types(session: Session, after: int = 0) -> list[str]:
    return [event.type for event in session.events.after(after)]


def newest(session: Session, type: str) -> SessionEvent:
    return session.events.filter(type=type).latest("seq")


@pytest.fixture
def secret(workspace: Workspace) -> str:
    """Return a key that may read and run in the workspace."""
    return key_for(workspace)
