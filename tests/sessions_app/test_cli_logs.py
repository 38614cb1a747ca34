"""Tests of the command line: events, export, and running sessions without workers."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from agents.definitions import create_agent
from agents.models import Agent
from agents.providers.base import TextDelta
from sessions_app.live.frames import event_body
from sessions_app.log.transfer import export
from sessions_app.models import Run
from tests.sessions_app.commands import (
    InterruptedOutput,
    agent_command,
    as_json,
    command_error,
    lanes_claim,
    send,
)
from tests.sessions_app.live.stream_client import say

HELLO = [TextDelta(text="Hello "), TextDelta(text="you.")]

# ── The log ──────────────────────────────────────────────────────────────────


def test_events_after_a_seq_are_printed(session):
    say(session, "one", "two\nlines", "x" * 200)
    lines = agent_command("session", "events", "--session", session.pk, "--after", 1).splitlines()

    assert lines[0].split(maxsplit=2) == ["2", "user.message", "two lines"]
    assert lines[1].endswith("x…")
    told = as_json("session", "events", "--session", session.pk)
    assert told == [event_body(event) for event in session.events.order_by("seq")]


def test_the_export_command_prints_the_exported_log(session):
    say(session, "Grüße", "two")
    written = agent_command("session", "export", "--session", session.pk)

    assert f"{written}\n".encode() == b"".join(export(session))


@pytest.mark.django_db(transaction=True)
def test_follow_prints_new_events_until_it_is_interrupted(session):
    say(session, "old")
    out = InterruptedOutput(3)

    def write_more() -> None:
        try:
            assert out.began.wait(30)
            say(session, "new")
            say(session, "the end")
        finally:
            connection.close()

    writer = threading.Thread(target=write_more)
    writer.start()
    agent_command("session", "events", "--session", session.pk, "--follow", out=out)
    writer.join(30)

    shown = [line.split(maxsplit=2)[2] for line in out.getvalue().splitlines()]
    assert shown == ["old", "new", "the end"]


# ── The orchestrator ─────────────────────────────────────────────────────────


@pytest.fixture
def other_agent(workspace) -> Agent:
    fields = {"name": "Other", "provider": "demo", "model": "demo"}
    return create_agent(workspace_id=workspace.pk, fields=fields)


@pytest.mark.django_db(transaction=True)
def test_the_orchestrator_runs_due_messages_and_ends(session, script):
    script(HELLO, HELLO)
    first = agent_command(*send(session, "one"))
    second = agent_command(*send(session, "two"))
    told = as_json("orchestrator")

    assert [one.get("run_id") for one in told] == [first, second, None]
    assert {one["status"] for one in told[:2]} == {"completed"}
    assert told[-1] == {"runs": 2, "cycles": 1}
    assert agent_command("orchestrator") == "0 runs in 1 cycles."


@pytest.mark.django_db(transaction=True)
def test_the_orchestrator_can_serve_a_single_agent(session, other_agent, script):
    script(HELLO)
    agent_command(*send(session))
    theirs = agent_command("session", "create", "--agent", "Other")
    waits = agent_command("session", "send", "--session", theirs, "--message", "hi")
    agent_command("orchestrator", "--agent", "Tester", "--stop-when-idle")

    assert Run.objects.get(pk=waits).status == "queued"
    assert Run.objects.exclude(pk=waits).get().status == "completed"
    assert "Nobody" in command_error("orchestrator", "--agent", "Nobody")


@pytest.mark.django_db(transaction=True)
def test_the_orchestrator_stops_when_idle_or_after_its_maximum_of_cycles(session, script):
    def send_more() -> None:
        elsewhere = agent_command("session", "create", "--agent", "Tester")
        agent_command("session", "send", "--session", elsewhere, "--message", "more")

    script([send_more, *HELLO], HELLO)
    agent_command(*send(session))
    assert as_json("orchestrator", "--max-cycles", 1)[-1] == {"runs": 1, "cycles": 1}
    assert as_json("orchestrator", "--stop-when-idle")[-1] == {"runs": 1, "cycles": 2}
    assert "is not a number from 1 on" in command_error("orchestrator", "--max-cycles", 0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("more", [(), ("--watch",), ("--stop-when-idle",)])
def test_a_maximum_of_cycles_is_that_many_runs(session, script, more):
    """Five messages wait in one lane, which one cycle would otherwise work off."""
    script(*[HELLO] * 5)
    for _ in range(5):
        agent_command(*send(session))

    assert as_json("orchestrator", "--max-cycles", 2, *more)[-1] == {"runs": 2, "cycles": 2}
    assert Run.objects.filter(status="completed").count() == 2
    assert Run.objects.filter(status="queued").count() == 3
    assert as_json("orchestrator", "--stop-when-idle")[-1]["runs"] == 3


@pytest.mark.django_db(transaction=True)
def test_a_watching_orchestrator_serves_new_messages_until_it_is_interrupted(session, script):
    script(HELLO, HELLO)
    agent_command(*send(session, "first"))
    last: list[str] = []

    def write_more() -> None:
        try:
            assert out.began.wait(30)
            last.append(agent_command(*send(session, "second")))
        finally:
            connection.close()

    out = InterruptedOutput(2)
    writer = threading.Thread(target=write_more)
    writer.start()
    agent_command("orchestrator", "--watch", "--max-cycles", 100, out=out)
    writer.join(30)

    assert last[0] in out.getvalue()
    assert not Run.objects.exclude(status="completed").exists()


@pytest.mark.django_db(transaction=True)
def test_the_orchestrator_recovers_the_run_of_a_lost_worker(session, script, settings):
    settings.LEASE_SECONDS = -1.0
    run_id = lanes_claim(session)
    settings.LEASE_SECONDS = 30.0
    script(HELLO)
    agent_command("orchestrator", "--stop-when-idle")

    assert Run.objects.get(pk=run_id).status == "completed"
