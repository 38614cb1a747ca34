"""Tests that a task's command outlives its worker in both kinds of sandbox and is adopted."""

from __future__ import annotations

import os
import signal
import time

import pytest

from agents.models import Environment
from orchestrator.engine.lifecycle import restart, terminate
from orchestrator.engine.runner import Runner
from orchestrator.models import WorkflowEvent
from orchestrator.supervisor import sweep_sandboxes
from orchestrator.tasks import commands, sandbox
from orchestrator.tasks.artifacts import artifacts_of
from orchestrator.tasks.commands import end_running, running
from sessions_app.lanes.signals import StopSignal
from tests.orchestrator.conftest import claim, now, serve, steps
from tests.orchestrator.tasks.test_commands import Killed, content, log_of, lose
from tests.tools_app.conftest import needs_bwrap
from tests.tools_app.sandbox.conftest import IMAGE, alive, sleep_command
from tools_app.sandbox.container.lifecycle import remove_containers
from tools_app.sandbox.tasks.control import is_alive

pytestmark = [pytest.mark.django_db, needs_bwrap, pytest.mark.usefixtures("data_dir")]

WAIT = "while [ ! -e go ]; do sleep 0.05; done"
PATIENCE = 60


@pytest.fixture(params=["local", "container"])
def kind(request):
    if request.param == "container":
        request.getfixturevalue("engine")
    return request.param


@pytest.fixture
def task(begin, workspace, kind):
    """Return a function that starts a task in such a sandbox; clean up after the test."""
    made = []
    Environment.objects.create(
        workspace=workspace, name="there", kind=kind, image=IMAGE if kind == "container" else ""
    )

    def use(command, **params):
        params = {"command": command, "environment": "there", **params}
        made.append(begin(params, name="execute-task"))
        return made[-1]

    yield use
    for one in made:
        if found := sandbox.read(one.pk):
            sandbox.close(found)


@pytest.fixture
def serve_until(monkeypatch):
    """Serve a workflow until its command has printed something, then call a function."""

    def use(words, happens, *, is_told=True):
        sign = StopSignal()

        class WatchingReporter(commands.ProgressReporter):
            heard = ""

            def take(self, text):
                self.heard += text
                if is_told:
                    super().take(text)
                if words in self.heard:
                    happens(sign)

        with monkeypatch.context() as patch:
            patch.setattr(commands, "ProgressReporter", WatchingReporter)
            Runner(claim(), sign, lambda _: None).run()

    return use


def die(sign):
    raise Killed


def go(made):
    sandbox.read(made.pk).folder.files.joinpath("go").touch()


def progress_of(made):
    told = WorkflowEvent.objects.filter(workflow=made, type="progress").order_by("seq")
    return [(one.payload["percent"], one.payload["message"]) for one in told]


def wait_until(look):
    until = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("is_told", [True, False])
def test_the_next_worker_adopts_the_command_and_output_is_neither_lost_nor_repeated(
    task, serve_until, is_told
):
    made = task(f"echo once >> count; echo one; {WAIT}; echo two")
    with pytest.raises(Killed):
        serve_until("one", die, is_told=is_told)
    (record,) = running()
    assert is_alive(record)
    lose(made)
    go(made)
    serve()
    found = now(made)

    assert found.status == "complete", found.error
    assert found.output["output"] == "one\ntwo\n"
    assert log_of(made) == "one\ntwo\n"
    assert content(found, "count") == b"once\n"
    run = next(step for step in steps(made) if step.name == "run command")
    assert run.attempts == 2
    assert running() == []


def test_the_progress_of_a_command_never_decreases_and_is_reported_once(task, serve_until):
    made = task(
        f"echo ::progress 20 Reading; echo ::progress 50 Writing; {WAIT}; "
        "echo ::progress 40 Writing; echo ::progress 100; echo done"
    )
    with pytest.raises(Killed):
        serve_until("Writing", die, is_told=False)  # The worker dies before it reports,
    lose(made)
    with pytest.raises(Killed):
        serve_until("Writing", die)  # and the next one dies afterwards.
    lose(made)
    go(made)
    serve()
    told = progress_of(made)
    percents = [percent for percent, _ in told]

    assert now(made).status == "complete", now(made).error
    assert percents == sorted(percents)
    assert told.count((55.0, "Writing")) == 1
    assert told[-1] == (100.0, "Done")


def test_a_worker_that_shuts_down_leaves_the_command_to_the_next(task, serve_until):
    made = task(f"echo one; {WAIT}; echo two")
    serve_until("one", lambda sign: sign.send("shutdown"))
    assert len(running()) == 1
    lose(made)
    go(made)
    serve()

    assert now(made).status == "complete", now(made).error
    assert log_of(made) == "one\ntwo\n"


def test_a_command_ends_at_once_when_its_task_is_terminated(task, serve_until):
    marker = sleep_command()
    made = task(f"echo one; setsid {marker} & {marker}")

    def stop(sign):
        terminate(now(made))
        sign.send("stopped")

    serve_until("one", stop)

    assert now(made).status == "terminated"
    assert running() == []
    assert not alive(marker)


def test_the_supervisor_ends_the_command_of_a_terminated_task(task, serve_until):
    marker = sleep_command()
    made = task(f"echo one; setsid {marker} & {marker}")
    with pytest.raises(Killed):
        serve_until("one", die)
    sweep_sandboxes()
    assert len(running()) == 1, "a task that goes on keeps its command"

    terminate(now(made))
    sandbox.close_all(sandbox.unneeded())
    assert not alive(marker)
    assert sandbox.read(made.pk) is None


def test_a_command_whose_keeper_is_lost_is_unknown_and_not_run_again(task, serve_until):
    marker = sleep_command()
    made = task(f"echo once >> count; mkdir artifacts; date > artifacts/d; echo one; {marker}")

    def kill_keeper(sign):
        (record,) = running()
        os.kill(int(record.keeper().partition(".")[0]), signal.SIGKILL)

    serve_until("one", kill_keeper)
    found = now(made)

    assert (found.status, found.error["code"]) == ("errored", "unknown")
    assert "not repeated automatically" in found.error["message"]
    wait_until(lambda: not alive(marker))
    # A person may inspect what it did: the sandbox is kept for a while.
    kept = sandbox.read(made.pk)
    assert kept.folder.files.joinpath("count").read_text() == "once\n"
    assert sandbox.unneeded() == []
    assert [one["path"] for one in artifacts_of(found)] == ["artifacts/d"]


def test_a_person_can_run_a_stopped_command_again(task, serve_until):
    made = task(f"echo once >> count; echo one; {WAIT}")
    serve_until("one", lambda _: end_running("Switchyard was stopped."))
    found = now(made)
    assert (found.status, found.error["code"]) == ("errored", "command_stopped")
    assert "Switchyard was stopped." in found.error["message"]

    go(made)
    restart(found, from_step="run command")
    serve()
    assert now(made).status == "complete", now(made).error
    assert content(now(made), "count") == b"once\nonce\n"
    assert sandbox.read(made.pk) is None, "what was kept for a look is not kept for ever"


def test_a_restart_ends_the_command_of_the_previous_generation(task, serve_until):
    made = task(f"echo $$ > pid; echo one; {WAIT}; sleep 0.2; echo two >> count")
    with pytest.raises(Killed):
        serve_until("one", die)
    (before,) = running()
    restart(now(made), from_step="run command")
    with pytest.raises(Killed):
        serve_until("one", die)
    (after,) = running()

    assert after != before
    assert before.ending().ended_by == "stop"
    lose(made)
    go(made)
    serve()
    assert content(now(made), "count") == b"two\n"
    assert log_of(made) == "one\none\n"


@pytest.mark.parametrize("kind", ["container"], indirect=True)
def test_a_removed_container_is_an_error_and_not_silently_replaced(task, serve_until):
    made = task("echo once >> count; echo one; sleep 712348")

    def take_away(_):
        remove_containers(made.pk)

    serve_until("one", take_away)
    found = now(made)

    assert (found.status, found.error["code"]) == ("errored", "unknown")
    assert "was removed" in found.error["message"]
    assert sandbox.read(made.pk).folder.files.joinpath("count").read_text() == "once\n"
