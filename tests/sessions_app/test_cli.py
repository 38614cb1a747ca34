"""Tests of the command line: each command, and its error messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from io import StringIO
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from agents.exceptions import ProviderRejected
from agents.models import Agent
from agents.providers.base import TextDelta
from core.env import ROOT
from core.ids import uuid7
from sessions_app.management.commands.agent import Command
from sessions_app.models import Run, Session, ToolExecution
from tenants.models import Workspace
from tenants.pulse import beat
from tests.faults.conftest import database_url, eventually
from tests.sessions_app.commands import (
    Worker,
    agent_command,
    as_json,
    command_error,
    lanes_claim,
    send,
)
from tests.sessions_app.conftest import types
from tests.sessions_app.parking import park

#: Runs a command as `manage.py` does beside the embedded PostgreSQL.
EXITING = """
import signal, sys
from django.core.management import execute_from_command_line
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
execute_from_command_line(["manage.py", "agent", *sys.argv[1:]])
"""
HELLO = [TextDelta(text="Hello "), TextDelta(text="you.")]


# ── Agents ───────────────────────────────────────────────────────────────────


def test_agents_are_listed_one_per_line(agent):
    (line,) = [line for line in agent_command("list").splitlines() if "Tester" in line]

    assert line == f"{agent.pk}  Tester  demo/demo  v1"
    assert {"id": str(agent.pk), "name": "Tester", "provider": "demo", "model": "demo"}.items() <= {
        one["name"]: one for one in as_json("list")
    }["Tester"].items()


def test_an_agent_is_spawned(workspace, owner):
    spawned = agent_command("spawn", "--name", "Scout", "--provider", "demo", "--model", "demo")
    made = Agent.objects.get(pk=spawned)

    assert (made.current.name, made.current.provider) == ("Scout", "demo")
    assert made.created_by == owner
    assert "name" in command_error("spawn", "--name", " ")
    assert command_error("spawn") == "Error: the following arguments are required: --name"


def test_another_workspace_is_reached_by_its_name_only(agent, foreign_workspace, session):
    there = ("--workspace", "elsewhere")

    assert "Tester" not in agent_command("list", *there)
    assert str(session.pk) in command_error("session", "status", "--session", session.pk, *there)
    assert command_error("list", "--workspace", "nowhere") == "There is no workspace 'nowhere'."


def test_a_workspace_without_people_can_be_used_too(db):
    Workspace.objects.create(name="Robots", slug="robots")
    spawned = agent_command("spawn", "--name", "R1", "--provider", "demo")
    session_id = agent_command("session", "create", "--agent", "R1")
    run_id = agent_command("session", "send", "--session", session_id, "--message", "hi")

    assert Agent.objects.get(pk=spawned).created_by is None
    assert str(Run.objects.get().pk) == run_id


def test_the_error_without_any_workspace_says_what_to_do(db):
    assert command_error("list").startswith("There is no workspace yet.")


# ── Sessions ─────────────────────────────────────────────────────────────────


def test_a_session_is_made_once_per_key(agent):
    words = ("session", "create", "--agent", "Tester", "--key", "k")
    first = agent_command(*words)

    assert agent_command(*words) == first
    assert as_json(*words) == [{"id": first, "created": False}]
    assert Session.objects.get().pk == UUID(first)
    assert "Nobody" in command_error("session", "create", "--agent", "Nobody")
    assert "Nowhere" in command_error(*words, "--environment", "Nowhere")


def test_send_returns_the_run_of_the_message(session):
    (sent,) = as_json(*send(session))

    assert sent == {"seq": 1, "run_id": str(Run.objects.get().pk)}
    assert types(session) == ["user.message"]
    assert command_error(*send(session, "  ")).startswith(
        "The payload of user.message is not valid"
    )


@pytest.mark.django_db(transaction=True)
def test_send_with_wait_prints_the_answer(session, script):
    script(HELLO)
    with Worker(session):
        assert agent_command(*send(session, "Hi", "--wait")) == "Hello you."


@pytest.mark.django_db(transaction=True)
def test_send_with_wait_explains_a_missing_answer(session, script):
    script([ProviderRejected("no such model")])
    with Worker(session):
        said = command_error(*send(session, "Hi", "--wait"))
    assert said == "The run is failed: no such model"
    said = command_error(*send(session, "Hi", "--wait", "--timeout", "0.1"))
    assert said.endswith("is still queued.")


def test_send_with_wait_names_the_call_that_needs_an_answer(session, monkeypatch):
    park(session, "tu_7")
    parked = Run.objects.get()
    monkeypatch.setattr("sessions_app.management.cli.wait_for_run", lambda *_: parked)
    with pytest.raises(CommandError) as caught:
        agent_command(*send(session, "Hi", "--wait"))

    assert str(caught.value) == "The run waits for an answer to tu_7 (clean)."
    assert caught.value.returncode == 2


def test_interrupt_names_the_stopped_run(session):
    assert agent_command("session", "interrupt", "--session", session.pk) == "Nothing was running."
    run_id = lanes_claim(session)
    words = ("session", "interrupt", "--session", session.pk, "--note", "enough")

    assert agent_command(*words) == run_id
    assert session.events.filter(type="user.interrupt").last().payload == {"note": "enough"}


def test_status_shows_the_state_and_the_waiting_calls(session):
    park(session, "tu_7")
    agent_command(*send(session, "one more"))
    (told,) = as_json("session", "status", "--session", session.pk)

    assert (told["status"], told["queued"], told["last_seq"]) == ("requires_action", 1, 5)
    assert told["waits_for"] == [{"request": "tu_7", "tool": "clean"}]
    assert "status: requires_action" in agent_command("session", "status", "--session", session.pk)


def test_a_waiting_call_is_confirmed_once(session):
    park(session, "tu_1", "tu_2")
    words = ("session", "confirm-tool", "--session", session.pk, "--decision", "deny", "--request")

    assert agent_command(*words, "tu_1", "--note", "no").startswith("Taken.")
    run_id = agent_command(*words, "tu_2")
    assert Run.objects.get(pk=run_id).resumes
    assert command_error(*words, "tu_2").startswith("the command line denied this at ")
    assert ToolExecution.objects.get(tool_use_id="tu_1").error == "A person refused: no"
    assert "invalid choice" in command_error(*words, "tu_1", "--decision", "maybe")


def test_the_result_of_a_custom_tool_is_accepted(session):
    park(session, "tu_1", custom=True)
    words = ("session", "custom-tool-result", "--session", session.pk, "--request", "tu_1")
    run_id = agent_command(*words, "--output", "swept")

    call = ToolExecution.objects.get()
    assert (call.state, call.output) == ("completed", "swept")
    assert Run.objects.get(pk=run_id).resumes
    assert "waits for no answer" in command_error(*words, "--output", "again")


def test_wake_names_the_next_run(session):
    assert agent_command("wake", "--session", session.pk) == "Nothing is due."
    run_id = agent_command(*send(session))

    assert agent_command("wake", "--session", session.pk) == run_id


def test_wake_says_when_no_worker_is_running(session):
    def woken() -> tuple[str, str]:
        out, err = StringIO(), StringIO()
        call_command("agent", "wake", "--session", str(session.pk), stdout=out, stderr=err)
        return out.getvalue(), err.getvalue()

    told, warning = woken()
    assert "No worker is running" in warning
    assert "worker" not in told
    assert as_json("wake", "--session", session.pk) == [{"run_id": None, "workers": False}]
    beat("worker")

    assert woken()[1] == ""
    assert as_json("wake", "--session", session.pk) == [{"run_id": None, "workers": True}]


def test_a_session_of_any_workspace_is_found_by_its_id(session, foreign_workspace):
    """The first workspace is another one."""
    Workspace.objects.filter(pk=foreign_workspace.pk).update(created_at="2001-01-01T00:00Z")

    assert f"id: {session.pk}" in agent_command("session", "status", "--session", session.pk)
    assert agent_command(*send(session))


def test_an_unknown_session_is_a_one_line_error(agent):
    nobody = uuid7()

    assert command_error("wake", "--session", nobody) == f"There is no session {nobody} here."
    assert "is not the id of a session" in command_error("wake", "--session", "x")


def test_an_interrupted_wait_says_so_and_leaves_the_message_queued(session, monkeypatch):
    def break_off(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sessions_app.management.cli.wait_for_run", break_off)

    assert command_error(*send(session, "Hi", "--wait")) == "Broken off."
    assert Run.objects.get().status == "queued"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_process_that_waits_for_an_answer(session, number):
    words = [str(word) for word in send(session, "Hi", "--wait")]
    env = {**os.environ, "DATABASE_URL": database_url()}
    env["DJANGO_SETTINGS_MODULE"] = "config.settings.test"
    waiting = subprocess.Popen(
        [sys.executable, "-c", EXITING, *words], cwd=ROOT, env=env, stderr=subprocess.PIPE
    )
    try:
        eventually(Run.objects.exists)
        time.sleep(1)  # the wait begins after the message was sent
        waiting.send_signal(number)
        # The wait itself would last a minute.
        waiting.wait(20)
    finally:
        waiting.kill()
        waiting.communicate()
    assert waiting.returncode == (130 if number == signal.SIGINT else 143)


# ── As a process ─────────────────────────────────────────────────────────────


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["list", "--odd"], 2),
        (["session"], 2),
        (["session", "status", "--session", "x"], 2),
        (["wake", "--session", str(uuid7())], 1),
        (["spawn", "--name", ""], 1),
    ],
)
def test_a_failing_process_prints_one_line_and_exits_with_its_code(workspace, capsys, words, code):
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "agent", *words])
    out, err = capsys.readouterr()

    assert ended.value.code == code
    assert len(err.strip().splitlines()) == 1, err
    assert out == ""


# ── Resources ────────────────────────────────────────────────────────────────


def test_a_resource_is_attached_listed_and_detached(session):
    about = ("--session", session.pk)
    place = ("--mount-path", "/workspace/data")
    made = agent_command(
        *("session", "attach", *about, *place),
        *("--kind", "workspace_directory", "--source-ref", "data", "--access", "read_write"),
    )

    assert UUID(made) == session.resources.get().pk
    listed = agent_command("session", "resources", *about)
    assert listed == "/workspace/data  workspace_directory  read_write  pending"
    assert "overlaps with the attached resource" in command_error(
        *("session", "attach", *about, "--mount-path", "/workspace/data/x"),
        *("--kind", "local_file", "--source-ref", "x"),
    )
    assert agent_command("session", "detach", *about, *place) == "Took away /workspace/data."
    assert "Nothing is attached" in command_error("session", "detach", *about, *place)
