"""An agent with all tools and helpers to script it, for tests of sub-agents and peer sessions."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from agents.providers.base import TextDelta, Usage
from sessions_app.models import Session
from tests.sessions_app.conftest import serve
from tools_app import save_tool_policy

USAGE = Usage(input_tokens=3, output_tokens=2)


def words(text: str) -> list[object]:
    return [TextDelta(text=text), USAGE]


@pytest.fixture
def agent(workspace, owner):
    fields = {"name": "Tester", "provider": "demo", "model": "demo"}
    made = create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)
    save_tool_policy(made.pk, {"profile": "full"})
    return made


def serve_all(*sessions: Session) -> None:
    for _ in range(5):
        for session in sessions:
            serve(session.pk)
