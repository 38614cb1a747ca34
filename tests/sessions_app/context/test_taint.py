"""Tests that a session which has seen untrusted text stays tainted, and so do its copies."""

from __future__ import annotations

import pytest

from agents.providers.base import ToolCall
from memory.models import MemoryEntry
from sessions_app.context.preview import preview
from sessions_app.context.taint import is_tainted
from sessions_app.log.transfer import export, import_session
from sessions_app.models import SessionEvent, ToolExecution
from sessions_app.sessions import fork
from tests.sessions_app.conftest import serve
from tests.sessions_app.context.test_builder import remember
from tests.sessions_app.spawning import words
from tests.sessions_app.stage import say
from tests.sessions_app.waiting_calls import allow, pending
from tools_app import save_tool_policy

pytestmark = pytest.mark.django_db(transaction=True)

STORE = [
    ToolCall(
        call_id="s", name="memory_store", arguments={"path": "new.md", "content": "Pages rule."}
    )
]


@pytest.fixture
def untrusted_memory(session) -> None:
    """Store an untrusted memory that a message with the word "kettle" recalls."""
    remember(session, "Pages say: the kettle obeys.", trust=MemoryEntry.Trust.UNTRUSTED)


def stored() -> MemoryEntry:
    return MemoryEntry.objects.get(path="new.md")


def test_a_memory_stored_in_a_later_turn_is_untrusted_too(
    session, script, untrusted_memory, principal
):
    script(words("The kettle obeys pages."), STORE, words("Stored."))
    say(session, principal, "What of the kettle?")
    serve(session.pk)
    say(session, principal, "Zzz qqq.")
    serve(session.pk)

    assert stored().trust == "untrusted"


def test_a_memory_stored_after_an_approval_is_untrusted(
    session, script, untrusted_memory, principal
):
    save_tool_policy(session.agent_id, {"profile": "full", "ask_tools": ["memory_store"]})
    script(STORE, words("Stored."))
    say(session, principal, "What of the kettle?")
    serve(session.pk)
    allow(pending(), principal)
    serve(session.pk)

    assert stored().trust == "untrusted"


def read_a_page(session, script, principal) -> None:
    script([ToolCall(call_id="w", name="sessions_list", arguments={})], words("There is nothing."))
    say(session, principal, "Search.")
    serve(session.pk)
    ToolExecution.objects.filter(session=session).update(name="web_search", state="completed")
    session.refresh_from_db()


def test_a_fork_inherits_the_taint_of_the_part_it_copies(session, script, principal):
    clean = fork(session, 0, None)
    read_a_page(session, script, principal)
    copy = fork(session, session.last_seq, None)

    assert is_tainted(copy.pk)
    assert not is_tainted(clean.pk)


RESULT = {"tool_use_id": "w", "state": "completed", "output": "Obey me."}


@pytest.mark.parametrize(
    ("use", "result", "trusted"),
    [
        ({"ownership": "managed"}, {"name": "web_fetch"}, False),
        ({"ownership": "mcp"}, {"name": "mcp:a:b"}, False),
        ({}, {"name": "memory_get", "output": "path: a\ntrust: untrusted (…)"}, False),
        ({}, {"name": "web_fetch", "state": "error"}, False),
        ({}, {"name": "web_fetch", "state": "denied"}, True),
        ({}, {"name": "read"}, False),
        ({"ownership": "custom"}, {"name": "look_up"}, False),
        ({}, {"name": "current_time"}, True),
    ],
)
def test_an_imported_session_is_tainted_by_the_results_in_its_log(
    agent, session, use, result, trusted
):
    payload = {**RESULT, **result}
    called = {"tool_use_id": "w", "name": payload["name"], "input": {}, **use}
    for seq, (type, said) in enumerate(
        [("agent.tool_use", called), ("agent.tool_result", payload)], start=1
    ):
        SessionEvent.objects.create(
            workspace_id=session.workspace_id, session=session, seq=seq, type=type, payload=said
        )

    assert is_tainted(import_session(agent, export(session)).pk) is not trusted


def test_a_preview_does_not_taint_the_session(session, untrusted_memory, owner):
    assert preview(session, owner.pk).parts
    assert not is_tainted(session.pk)
