"""Tests of the runtime for Python callers."""

from __future__ import annotations

import pytest

from agents.providers.base import TextDelta
from core.exceptions import Forbidden, NotFound
from core.ids import uuid7
from sessions_app import runtime
from sessions_app.lanes import run_queue
from tenants.access import principal_of_user
from tests.conftest import add_member
from tests.sessions_app.conftest import OWNER, serve, types

WORDS = [TextDelta(text="Hello "), TextDelta(text="you.")]


def test_a_session_is_found_again_by_its_key(agent, owner):
    made, is_new = runtime.get_or_create_session(agent.pk, "k", title="Trip", metadata={"a": 1})
    found, again = runtime.get_or_create_session(agent, "k")

    assert (is_new, again) == (True, False)
    assert found == made
    assert (made.title, made.metadata, made.created_by_id) == ("Trip", {"a": 1}, owner.pk)


@pytest.mark.parametrize("ref", ["Tester", "no-such-agent", "0190"])
def test_without_a_principal_an_agent_can_only_be_named_by_id(agent, ref):
    with pytest.raises(NotFound):
        runtime.get_or_create_session(ref, "k")
    with pytest.raises(NotFound):
        runtime.get_or_create_session(uuid7(), "k")


def test_a_principal_reaches_only_its_own_workspace(
    agent, session, principal, stranger, foreign_workspace
):
    elsewhere = principal_of_user(stranger, foreign_workspace.pk)

    assert runtime.get_or_create_session("Tester", "k", principal=principal)[1]
    for reach in (
        lambda: runtime.get_or_create_session(agent, "k", principal=elsewhere),
        lambda: runtime.append_message(session, "hi", principal=elsewhere),
        lambda: runtime.get_history(session.pk, principal=elsewhere),
        lambda: runtime.wake(session, principal=elsewhere),
        lambda: runtime.wait_for_agent_run(uuid7(), principal=elsewhere),
    ):
        with pytest.raises(NotFound):
            reach()
    assert types(session) == []


def test_a_viewer_reads_but_does_not_send(session, workspace):
    viewer = principal_of_user(add_member(workspace, "viewer"), workspace.pk)

    assert runtime.get_history(session, principal=viewer) == []
    with pytest.raises(Forbidden):
        runtime.append_message(session, "hi", principal=viewer)


def test_history_returns_the_last_messages_in_order(session, script):
    script(WORDS, WORDS)
    for text in ("one", "two"):
        runtime.append_message(session.pk, text)
        serve(session.pk)
    history = runtime.get_history(session, limit=3)

    assert [(said.role, said.text) for said in history] == [
        ("assistant", "Hello you."),
        ("user", "two"),
        ("assistant", "Hello you."),
    ]


def test_wake_returns_the_next_run(session):
    assert runtime.wake(session.pk) is None
    run_id = runtime.append_message(session, "hi").run_id

    assert runtime.wake(session) == run_id
    with pytest.raises(NotFound):
        runtime.wake(uuid7())


def test_waiting_for_an_unclaimed_run_returns_its_current_state(agent):
    enqueued = runtime.enqueue_agent_run(agent, "k", "Hi", priority=2)

    run = runtime.wait_for_agent_run(enqueued.run_id, 0)
    assert (run.status, run.priority) == ("queued", 2)
    run_queue.claim(enqueued.session_id, OWNER)
    assert runtime.wait_for_agent_run(enqueued.run_id, 0).status == "running"
