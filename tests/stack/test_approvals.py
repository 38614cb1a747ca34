"""Tests that an approval survives a restart of every process and that its call then runs once."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Any

import psutil
import pytest

from tests.stack.client import Client
from tests.stack.running import wait_for

pytestmark = pytest.mark.stack


def ask(client: Client, text: str) -> dict[str, Any]:
    """Let an agent request a command and return the pending approval."""
    body = {"agent": "Coder", "session_key": text, "message": f"run {text}"}
    session_id = client.call("runtime/", body)["session_id"]
    path = f"approvals/?status=pending&session={session_id}"
    return wait_for(lambda: client.rows(path), "a question")[0]


def test_an_approval_survives_the_death_of_every_process(make_stack):
    stack = make_stack()
    stack.start()
    client = Client(stack)
    asked = ask(client, "echo first")
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in stack.everything():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        stack.wait_until_gone()
        stack.start()
        assert client.call(f"approvals/{asked['id']}/")["status"] == "pending"

    answered = client.call(f"approvals/{asked['id']}/", {"decision": "allow", "scope": "session"})
    calls = f"tools/executions/?session={asked['session_id']}"
    over = wait_for(
        lambda: [c for c in client.rows(calls) if c["finished_at"]], "the end of the call"
    )

    assert answered["status"] == "allowed"
    assert [(c["input"], c["attempts"]) for c in over] == [({"command": "echo first"}, 1)]
    messages = f"sessions/{asked['session_id']}/messages/"
    wait_for(lambda: client.rows(messages)[-1]["role"] == "assistant", "the answer")


def test_the_supervisor_of_a_running_stack_expires_an_unanswered_approval(make_stack):
    stack = make_stack(APPROVAL_SECONDS="1")
    stack.start()
    client = Client(stack)
    body = {"agent": "Coder", "session_key": "k", "message": "run echo late"}
    session_id = client.call("runtime/", body)["session_id"]

    path = f"approvals/?status=expired&session={session_id}"
    wait_for(lambda: client.rows(path), "the end of the question")
    messages = f"sessions/{session_id}/messages/"
    wait_for(lambda: client.rows(messages)[-1]["role"] == "assistant", "the answer")
    assert client.rows(f"tools/executions/?session={session_id}")[0]["state"] == "denied"


FORM = (
    '{"question": "Which track?", "fields": [{"name": "track", "label": "Track", "kind": "choice", '
    '"options": ["One", "Two"]}]}'
)


def test_a_question_survives_the_death_of_every_process_and_is_answered_once(make_stack):
    stack = make_stack()
    stack.start()
    client = Client(stack)
    body = {"agent": "Coder", "session_key": "q", "message": f"use the tool ask_user with {FORM}"}
    session_id = client.call("runtime/", body)["session_id"]
    path = f"approvals/?status=pending&session={session_id}"
    [asked] = wait_for(lambda: client.rows(path), "the question")
    assert (asked["kind"], asked["form"]["question"]) == ("question", "Which track?")
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in stack.everything():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        stack.wait_until_gone()
        stack.start()
        assert client.call(f"approvals/{asked['id']}/")["status"] == "pending"

    answer = {"decision": "answer", "values": {"track": "Two"}}
    answered = client.call(f"approvals/{asked['id']}/", answer)
    messages = f"sessions/{session_id}/messages/"
    wait_for(lambda: client.rows(messages)[-1]["role"] == "assistant", "the answer")

    assert answered["values"] == {"track": "Two"}
    [call] = client.rows(f"tools/executions/?session={session_id}")
    assert (call["state"], call["output"], call["attempts"]) == ("completed", {"track": "Two"}, 0)
