"""Tests of pinned memories: they are part of every context, and omitted ones are named."""

from __future__ import annotations

import pytest

from agents.providers.base import ToolCall
from core.ids import uuid7
from memory.documents import Marks, change_entry
from memory.models import MemoryEntry
from memory.ownership import person
from sessions_app.context.builder import Memory, render_memories
from sessions_app.sessions import get_or_create_session
from tests.sessions_app.conftest import serve
from tests.sessions_app.spawning import words
from tests.sessions_app.stage import say

pytestmark = pytest.mark.django_db(transaction=True)


def store(path: str, content: str) -> list[object]:
    arguments = {"path": path, "content": content}
    return [ToolCall(call_id="s", name="memory_store", arguments=arguments)]


def test_the_main_document_of_an_agent_is_part_of_every_session(session, agent, principal, script):
    model = script(
        store("MEMORY.md", "The yard has nine tracks."),
        words("Stored."),
        words("Hi."),
        words("Hi."),
    )
    say(session, principal)
    serve(session.pk)
    other, _ = get_or_create_session(agent=agent, session_key="other")
    say(other, principal, "zzz")
    serve(other.pk)

    assert "The yard has nine tracks." in model.requests[-1].messages[0].text
    # Until a person unpins it.
    entry = MemoryEntry.objects.get()
    change_entry(entry, author=person(None), marks=Marks(pinned=False))
    say(other, principal, "zzz")
    serve(other.pk)
    assert "nine tracks" not in model.requests[-1].messages[0].text


def test_no_other_document_is_pinned_automatically(session, principal, script):
    script(store("notes/MEMORY.md", "One."), words("Stored."))
    say(session, principal)
    serve(session.pk)

    assert not MemoryEntry.objects.get().pinned


def test_pins_that_do_not_fit_are_named():
    pins = tuple(
        Memory(entry_id=uuid7(), path=f"{name}.md", text="word " * 300, trusted=True)
        for name in "abcd"
    )

    text = render_memories(pins, "mark", 500, are_pins=True)

    assert "### a.md" in text
    assert "### d.md" not in text
    assert "no room" in text
    assert "d.md" in text.splitlines()[-1]
    assert "no room" not in render_memories(pins, "mark", 500)
    assert "no room" not in render_memories(pins[:1], "mark", 500, are_pins=True)
