"""Tests that each request to a model begins with the bytes of the request before.

Fifty turns with recall, tools, an approval and a compaction go through the vendor's SDK to a server
that records what arrives.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from agents.definitions import change_agent
from agents.providers.openai import OpenAIProvider
from bench.shared_prefix import cacheable_share
from sessions_app import runtime
from sessions_app.accept import accept_event
from sessions_app.models import ContextSnapshot, Session
from tests.sessions_app.conftest import serve
from tests.sessions_app.context.test_builder import remember
from tests.sessions_app.stage import E, say
from tests.wire.answers import JSON, Answer, Call
from tests.wire.openai import OpenAIWire
from tools_app.policy.evaluation import Decision, EffectivePolicy

pytestmark = pytest.mark.django_db(transaction=True)

TURNS, COMPACTED_AFTER, ASKED_IN = 50, 30, 20
SUBJECTS = ("kettle", "lantern", "anchor", "ladder", "compass", "barrel", "hammer", "basket")
WORDS = "The crew looked at it together and wrote down what they had found, in order. " * 3


def answered(body: JSON) -> Answer:
    """Answer as a model would that calls a tool in every third turn."""
    first, last = body["messages"][0], body["messages"][-1]
    if str(first["content"]).startswith("You keep the records"):
        is_save = "Save what matters" in str(last["content"])
        return Answer(text=("NOTHING" if is_save else f"Task and state: {WORDS}",))
    if last["role"] == "tool":
        return Answer(text=(f"That is done. {WORDS}",))
    turn = int(str(last["content"]).split()[1].rstrip(":"))
    if turn == ASKED_IN:
        return Answer(calls=(Call(name="ask_first", arguments={"text": "x"}, id="asked"),))
    if turn % 3 == 0:
        return Answer(calls=(Call(name="look", arguments={"text": f"{turn}"}, id=f"c{turn}"),))
    return Answer(text=(f"It is as you say. {WORDS}",))


@pytest.fixture
def wire(stage_tools, monkeypatch) -> Iterator[OpenAIWire]:
    allow = Decision(decision="allow", decided_by="test")
    policy = dict.fromkeys(("look", "memory_search", "read", "write"), allow)
    policy["ask_first"] = Decision(decision="ask", decided_by="test asks")
    monkeypatch.setattr(
        "tools_app.policy.effective.Binding.policy", lambda _: EffectivePolicy(policy)
    )
    with OpenAIWire(answered) as server, httpx2.Client() as client:
        provider = OpenAIProvider(
            api_key=server.key, base_url=server.url, timeout=30, http_client=client
        )
        for place in ("loop", "model_call"):
            monkeypatch.setattr(f"sessions_app.harness.{place}.provider_for", lambda *_: provider)
        yield server


def talk(session: Session, principal: Any) -> None:
    """Say what is about another subject in each turn, so that other documents are recalled."""
    for subject in SUBJECTS:
        remember(session, f"The {subject} stands in room {subject}.", path=f"{subject}.md")
    remember(session, "Answer briefly.", path="style.md", pinned=True)
    for turn in range(TURNS):
        say(session, principal, f"Turn {turn}: where is the {SUBJECTS[turn % 8]}?")
        serve(session.pk)
        if turn == ASKED_IN:
            execution = session.executions.get(state="awaiting_approval")
            answer = {"tool_use_id": execution.tool_use_id, "decision": "allow"}
            accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=answer)
            serve(session.pk)
        if turn == COMPACTED_AFTER:
            runtime.compact(session, principal=principal, keep_recent_messages=4)
            serve(session.pk)


def head_of(body: JSON) -> str:
    """Return what a vendor's cache sees of a request: the tools, then the messages."""
    messages = ",".join(json.dumps(message, ensure_ascii=False) for message in body["messages"])
    return f"{json.dumps(body['tools'])},{messages}"


def test_every_request_begins_with_the_bytes_of_the_one_before(session, agent, principal, wire):
    change_agent(agent, {"provider": "openai", "model": "gpt-4o-mini"})
    session.agent_version = agent.versions.latest("number")
    session.save(update_fields=["agent_version"])

    talk(session, principal)

    assert session.runs.exclude(status="completed").count() == 0
    bodies = [one.body for one in wire.requests if "tools" in one.body]
    assert len(bodies) == TURNS + len([n for n in range(TURNS) if n % 3 == 0 or n == ASKED_IN])
    heads = [head_of(body) for body in bodies]
    broken = [
        nth
        for nth, (before, head) in enumerate(itertools.pairwise(heads))
        if not head.startswith(before)
    ]
    assert ContextSnapshot.objects.count() == 1
    assert len(broken) == 1, broken
    last = str(bodies[broken[0] + 1]["messages"][-1]["content"])
    assert last.startswith(f"Turn {COMPACTED_AFTER + 1}:")
    told = [body for body in bodies if "stands in room" in str(body["messages"][-1])]
    assert len(told) >= len(SUBJECTS)
    assert cacheable_share(heads) >= 0.9


def test_a_note_is_told_once_and_survives_the_memory_of_a_process(
    session, principal, script, monkeypatch
):
    from sessions_app.context import known_entries
    from tests.sessions_app.spawning import words

    model = script(words("One."), words("Two."), words("Three."))
    remember(session, "The kettle is broken.", path="kettle.md")
    for text in ("What of the kettle?", "And the kettle now?"):
        say(session, principal, text)
        serve(session.pk)
    monkeypatch.setattr(known_entries.recent, "_sessions", type(known_entries.recent._sessions)())
    known_entries.recent._views.clear()
    say(session, principal, "Thanks.")
    serve(session.pk)

    first, second, third = (request.messages for request in model.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert str(third).count("The kettle is broken.") == 1
    assert [request.stable_messages for request in model.requests] == [1, 3, 5]
