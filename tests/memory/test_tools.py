"""Tests of the memory tools: each agent reads and writes its own memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from core.exceptions import Invalid
from core.ids import uuid7
from memory import tools
from memory.exceptions import MemoryTooLarge
from memory.models import MemoryEntry, MemoryVersion
from memory.recall import recall
from memory.tools import reader_of
from tools_app.exceptions import ToolFailed
from tools_app.registry import ToolContext, registry
from tools_app.sandbox.provisioning import LazySandbox

Call = Callable[..., Any]


@pytest.fixture
def context(workspace, agent, session, owner) -> ToolContext:
    return ToolContext(
        workspace_id=workspace.pk,
        session_id=session.pk,
        agent_id=agent.pk,
        user_id=owner.pk,
        run_id=uuid7(),
        call_id="call_1",
        sandbox=LazySandbox(lambda: pytest.fail("no sandbox is needed")),
    )


@pytest.fixture
def call(context: ToolContext) -> Call:
    def run(name: str, call_id: str = "", **arguments: Any) -> Any:
        given = replace(context, call_id=call_id or str(uuid7()))
        return registry[name].call(arguments, given)

    return run


def test_no_tool_lets_the_model_choose_the_owner():
    tools = [tool for name, tool in registry.items() if name.startswith("memory_")]

    assert len(tools) == 7
    for tool in tools:
        fields = set(tool.arguments.model_fields)
        assert not {name for name in fields if "id" in name.split("_")}
        assert fields.isdisjoint({"scope", "agent", "user", "session", "workspace", "owner"})


def test_a_stored_document_can_be_found_and_read(call):
    stored = call("memory_store", path="notes/office.md", content="The office closes at six.")
    assert stored.startswith("Stored notes/office.md for the agent")

    assert "The office closes at six." in call("memory_search", query="When does the office close?")
    shown = call("memory_get", path="notes/office.md")
    assert "hash: " in shown
    assert shown.endswith("\n\nThe office closes at six.")
    assert call("memory_search", query="xylophone").startswith("Only weak matches: ")


def test_the_path_decides_the_owner(call, context, owner):
    for path in ("MEMORY.md", "learnings/a.md", "session/plan.md", "user/taste.md"):
        call("memory_store", path=path, content=f"Kettles, says {path}")

    owners = dict(MemoryEntry.objects.values_list("path", "owner_id"))
    assert owners == {
        "MEMORY.md": context.agent_id,
        "learnings/a.md": context.agent_id,
        "session/plan.md": context.session_id,
        "user/taste.md": owner.pk,
    }


def test_sessions_share_an_agents_learnings_but_not_session_notes(call, context, workspace, agent):
    from sessions_app.models import Session

    call("memory_store", path="learnings/a.md", content="Kettles whistle.")
    call("memory_store", path="session/b.md", content="Kettles are today's subject.")
    other = Session.objects.create(workspace=workspace, agent=agent, agent_version=agent.current)
    there = replace(context, session_id=other.pk, user_id=None)

    found = registry["memory_search"].call({"query": "kettles"}, there)
    assert "learnings/a.md" in found
    assert "session/b.md" not in found
    with pytest.raises(ToolFailed, match="memory_list shows"):
        registry["memory_get"].call({"path": "session/b.md"}, there)
    with pytest.raises(Invalid, match="no user to own"):
        registry["memory_store"].call({"path": "user/a.md", "content": "x"}, there)


def test_a_version_records_the_call_that_wrote_it(call, context):
    call("memory_store", call_id="call_7", path="a.md", content="text")

    version = MemoryVersion.objects.get()
    assert (version.author, version.tool, version.call_id) == ("tool", "memory_store", "call_7")
    assert (version.session_id, version.run_id) == (context.session_id, context.run_id)


def test_a_text_can_be_changed_completely_or_in_one_place(call):
    call("memory_store", path="a.md", content="one two three")
    call("memory_update", path="a.md", old="two", new="2")
    assert call("memory_get", path="a.md").endswith("one 2 three")
    call("memory_update", path="a.md", content="all new")
    assert call("memory_get", path="a.md").endswith("all new")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "Give either `content`"),
        ({"old": "a", "content": "b"}, "not both"),
        ({"old": "zzz"}, "occurs 0 times"),
        ({"old": "o"}, "occurs 2 times"),
        ({"content": "x", "expected_hash": "0" * 64}, "changed this document first"),
    ],
)
def test_an_impossible_change_is_explained(call, arguments, complaint):
    call("memory_store", path="a.md", content="one two")

    with pytest.raises(ToolFailed, match=complaint):
        call("memory_update", path="a.md", **arguments)
    assert call("memory_get", path="a.md").endswith("one two")


def test_agents_can_read_but_not_write_workspace_documents(call, remember):
    remember("house/rules.md", "No shoes inside.", scope="workspace")

    assert "No shoes" in call("memory_get", path="house/rules.md")
    with pytest.raises(ToolFailed, match="Create it with memory_store"):
        call("memory_update", path="house/rules.md", content="Shoes on.")


def test_lines_are_appended_to_todays_log_by_default(call):
    call("memory_append", content="- met Ada")
    call("memory_append", content="- met Bob\n")
    entry = MemoryEntry.objects.get()

    assert entry.path.startswith("daily/20")
    assert entry.current.content == "- met Ada\n- met Bob\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_store", {"content": "one two three"}),
        ("memory_append", {"content": "four"}),
        ("memory_update", {"old": "one", "new": "one one"}),
    ],
)
def test_a_call_repeated_after_a_crash_writes_once(call, name, arguments):
    call("memory_store", path="a.md", content="one two")
    first = call(name, call_id="call_9", path="a.md", **arguments)
    text = MemoryEntry.objects.get().current.content
    again = call(name, call_id="call_9", path="a.md", **arguments)

    assert registry[name].idempotent
    assert MemoryEntry.objects.get().current.content == text
    assert MemoryVersion.objects.count() == 2
    assert first.split(" (")[0] == again.split(" (")[0].rstrip(".")


def test_a_repeated_call_does_not_undo_later_changes(call):
    call("memory_store", call_id="call_9", path="a.md", content="one")
    call("memory_store", path="a.md", content="two, from another session")

    assert call("memory_store", call_id="call_9", path="a.md", content="one").startswith("Stored")
    assert MemoryEntry.objects.get().current.content == "two, from another session"


def test_a_document_that_is_too_large_is_refused_with_a_message(call):
    call("memory_store", path="a.md", content="x" * 95_000)

    with pytest.raises(MemoryTooLarge, match="Split it"):
        call("memory_append", path="a.md", content="y" * 6_000)


def test_the_list_shows_paths_under_a_prefix(call):
    for path in ("learnings/b.md", "learnings/a.md", "notes/c.md"):
        call("memory_store", path=path, content="x")

    listed = call("memory_list", prefix="learnings/").splitlines()
    assert [line.split()[0] for line in listed] == ["learnings/a.md", "learnings/b.md"]
    assert len(call("memory_list").splitlines()) == 3


def test_a_document_stored_by_a_tainted_session_is_untrusted(call, context):
    tainted = replace(context, call_id="tainted", is_tainted=lambda: True)
    registry["memory_store"].call({"path": "a.md", "content": "Kettles obey the page."}, tainted)

    assert tools.trust_of(context) == "trusted"
    assert recall(reader_of(context), "kettles")[0].trust == "untrusted"
    assert "untrusted" in call("memory_search", query="kettles")
    assert "untrusted" in call("memory_get", path="a.md")


def test_an_agent_can_forget_only_its_own_documents_and_they_can_be_restored(
    call, remember, reader
):
    call("memory_store", path="learnings/kettle.md", content="The kettle is red.")
    remember("rules.md", "Be kind.", scope="workspace")

    assert "Forgot learnings/kettle.md" in call("memory_forget", path="learnings/kettle.md")
    assert "You have no document" in call("memory_forget", path="learnings/kettle.md")
    assert "You have no document" in call("memory_forget", path="rules.md")
    assert not recall(reader, "kettle red") or recall(reader, "kettle red")[0].path == "rules.md"
    gone = MemoryEntry.objects.get(path="learnings/kettle.md")
    assert gone.deleted_at
    assert gone.versions.get().content == "The kettle is red."
