"""Four test tools and helpers to script a session, for tests of the harness."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from agents.providers.base import TextDelta, ToolCall, Usage
from sessions_app.accept import accept_event
from sessions_app.harness import loop
from sessions_app.models import Session, SessionEvent
from tools_app.exceptions import ToolFailed
from tools_app.policy.evaluation import Decision, EffectivePolicy
from tools_app.registry import Category, registry, tool

E = SessionEvent.Type


class Note(BaseModel):
    text: str = ""


@pytest.fixture
def effects() -> list[str]:
    return []


@pytest.fixture
def stage_tools(monkeypatch, effects):
    """Add four tools to the registry: a reading, an acting, an asking and a failing one."""
    known = dict(registry)

    @tool(category=Category.TIME, read_only=True)
    def look(arguments: Note, context) -> str:
        """Look at something."""
        return f"saw {arguments.text}"

    @tool(category=Category.TIME)
    def act(arguments: Note, context) -> str:
        """Do something once."""
        effects.append(arguments.text)
        return f"did {arguments.text}"

    @tool(category=Category.TIME)
    def ask_first(arguments: Note, context) -> str:
        """Do something that a person must allow."""
        effects.append(arguments.text)
        return f"did {arguments.text}"

    @tool(category=Category.TIME)
    def fail(arguments: Note, context) -> str:
        """Fail."""
        raise ToolFailed("It does not work.")

    allow = Decision(decision="allow", decided_by="test")
    policy = dict.fromkeys(("look", "act", "fail"), allow)
    policy["ask_first"] = Decision(decision="ask", decided_by="test asks")
    policy["wait"] = allow
    monkeypatch.setattr(
        "tools_app.policy.effective.Binding.policy", lambda _: EffectivePolicy(policy)
    )
    monkeypatch.setattr(loop, "PAUSES", (0.0, 0.0))
    yield
    registry.clear()
    registry.update(known)


def say(session: Session, principal, text: str = "go", **words):
    return accept_event(principal, session.pk, type=E.USER_MESSAGE, payload={"text": text}, **words)


def call(name: str, text: str = "", id: str = "c1") -> ToolCall:
    return ToolCall(call_id=id, name=name, arguments={"text": text})


WORDS = [TextDelta(text="All "), TextDelta(text="done."), Usage(input_tokens=7, output_tokens=2)]
