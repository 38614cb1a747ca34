"""Tests of a task's command: run once, followed, collected, never repeated automatically."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from agents.environments import change_environment, create_environment
from orchestrator.engine.lifecycle import restart, terminate
from orchestrator.engine.recovery import fire_due, recover
from orchestrator.engine.store import EXPIRE, rows
from orchestrator.models import WorkflowEvent
from orchestrator.tasks import sandbox
from orchestrator.tasks.artifacts import artifacts_of, open_artifact
from tests.orchestrator.conftest import (
    OWNER,
    claim,
    now,
    pass_time,
    serve,
    serve_one,
    states,
    steps,
)
from tests.tools_app.conftest import needs_bwrap
from tools_app.sandbox.slots import command_slot

pytestmark = [pytest.mark.django_db, needs_bwrap, pytest.mark.usefixtures("data_dir")]


@pytest.fixture
def task(begin):
    """Return a function that runs a task to its end or to its first wait."""

    def use(**params):
        made = begin(params, name="execute-task")
        serve()
        return now(made)

    return use


class Killed(BaseException):
    """Ends a worker as a kill does."""


def die_at(monkeypatch, name):
    def reached(point):
        if point == name:
            raise Killed

    for module in ("orchestrator.tasks.commands", "orchestrator.engine.steps"):
        monkeypatch.setattr(f"{module}.crash_point", reached)


def lose(made):
    """Expire the lease of the workflow's worker and recover it."""
    rows("UPDATE workflows SET lease_expires = 'epoch' WHERE id = %s RETURNING 1", [made.pk])
    recover()


def log_of(made):
    told = WorkflowEvent.objects.filter(workflow=made, type="output").order_by("seq")
    return "".join(one.payload["message"]["text"] for one in told)


def content(made, path):
    with open_artifact(made, path) as file:
        return file.read()


@pytest.mark.parametrize(
    "files",
    [{"in/a.txt": "abc"}, [{"path": "in/a.txt", "content": "abc"}]],
    ids=["named", "listed"],
)
def test_files_may_be_given_by_name_or_as_a_list(task, files):
    assert task(command="cat in/a.txt", files=files).output["output"] == "abc"


def test_a_task_waits_without_a_thread_while_its_workspace_runs_as_many_commands_as_it_may(
    begin, workspace, settings
):
    settings.SANDBOXES_PER_WORKSPACE = 1
    made = begin({"command": "echo done"}, name="execute-task")
    with command_slot(workspace.pk):
        serve()
        waiting = steps(made)[-1]
        assert (waiting.name, waiting.status) == ("run command", "retrying")
        assert waiting.error["code"] == "too_many_sandboxes"
        assert not any(record.keeper() for record in sandbox.read(made.pk).records())
    pass_time(made, 60)
    fire_due()
    serve()

    assert now(made).output["output"] == "done\n"


def test_a_command_runs_in_the_environment_of_the_agent_that_is_named(task, workspace):
    yard = create_environment(workspace_id=workspace.pk, fields={"name": "yard"})
    fields = {"name": "Keeper", "provider": "demo", "model": "demo", "environment": str(yard.pk)}
    create_agent(workspace_id=workspace.pk, fields=fields)

    made = task(command="true", agent="Keeper", keep_seconds=60)
    kept = sandbox.read(made.pk)

    assert made.status == "complete", made.error
    assert kept is not None
    assert kept.environment_id == yard.pk


def test_a_command_runs_with_its_files_and_its_artifacts_are_kept(task):
    made = task(
        command="cat in/a.txt; wc -c < b.bin; mkdir artifacts; rev in/a.txt > artifacts/out.txt",
        files=[{"path": "in/a.txt", "text": "abc\n"}, {"path": "b.bin", "base64": "AAEC"}],
    )

    assert made.status == "complete", made.error
    assert made.output["exit_code"] == 0
    assert made.output["output"] == "abc\n3\n"
    assert log_of(made) == "abc\n3\n"
    assert [one["path"] for one in made.output["artifacts"]] == ["artifacts/out.txt"]
    assert content(made, "artifacts/out.txt") == b"cba\n"
    assert [name for name, _, _ in states(made)] == [
        "check credits",
        "create sandbox",
        "put files",
        "run command",
        "collect artifacts",
        "settle",
        "destroy sandbox",
    ]


def test_without_an_artifacts_folder_every_new_or_changed_file_is_an_artifact(task):
    made = task(
        command="echo new > made.txt; echo other > given.txt; ln -s /etc/passwd link; echo x > .h",
        files=[{"path": "given.txt", "text": "given"}, {"path": "same.txt", "text": "same"}],
    )

    assert [one["path"] for one in artifacts_of(made)] == ["given.txt", "made.txt"]


def test_the_sandbox_is_removed_after_the_task_and_its_artifacts_are_kept(task):
    made = task(command="echo 1 > left.txt")

    assert sandbox.read(made.pk) is None
    assert not sandbox.task_folder(made.workspace_id, made.pk).joinpath("workspace").exists()
    assert content(made, "left.txt") == b"1\n"


def test_a_failing_command_reports_its_exit_code_and_last_output(task):
    made = task(command="echo half > half.txt; echo it broke; exit 3")

    assert (made.status, made.error["code"]) == ("errored", "command_failed")
    assert "exit code 3" in made.error["message"]
    assert "it broke" in made.error["message"]
    assert [one["path"] for one in artifacts_of(made)] == ["half.txt"]
    assert sandbox.read(made.pk) is None


def test_a_command_that_exceeds_its_timeout_is_ended(task):
    made = task(command="echo begun; sleep 60", timeout=1)

    assert (made.status, made.error["code"]) == ("errored", "command_timeout")
    assert "longer than 1 s" in made.error["message"]


def test_a_limit_that_was_lowered_after_the_task_was_sent_is_named(begin, workspace):
    fields = {"name": "hasty", "limits": {"wall_seconds": 30}}
    hasty = create_environment(workspace_id=workspace.pk, fields=fields)
    params = {"command": "sleep 60", "timeout": 30, "environment": "hasty"}
    made = begin(params, name="execute-task")
    change_environment(hasty, {"limits": {"wall_seconds": 1}})
    serve()

    made = now(made)
    assert made.error["code"] == "command_timeout"
    assert "Raise the environment's time limit" in made.error["message"]


def test_a_command_that_was_ordered_but_not_started_is_started_by_the_next_worker(
    begin, monkeypatch
):
    made = begin({"command": "echo once >> count"}, name="execute-task")
    with monkeypatch.context() as patch:
        die_at(patch, "command_ordered")
        with pytest.raises(Killed):
            serve_one()
    lose(made)
    serve()

    assert now(made).status == "complete", now(made).error
    assert content(now(made), "count") == b"once\n"


def test_a_finished_command_is_adopted_when_its_worker_died_afterwards(begin, monkeypatch):
    made = begin({"command": "echo once >> count; echo said"}, name="execute-task")
    with monkeypatch.context() as patch:
        die_at(patch, "command_ended")
        with pytest.raises(Killed):
            serve_one()
    lose(made)
    serve()
    found = now(made)

    assert found.status == "complete", found.error
    assert found.output["output"] == "said\n"
    assert content(found, "count") == b"once\n"
    run = next(step for step in steps(made) if step.name == "run command")
    assert run.attempts == 2


@pytest.mark.parametrize("at", range(1, 8))
def test_a_worker_may_die_after_any_step_and_the_command_runs_once(begin, monkeypatch, at):
    made = begin(
        {"command": "cat a >> out", "files": [{"path": "a", "text": "x"}]}, name="execute-task"
    )
    seen = 0

    def reached(point):
        nonlocal seen
        seen += point == "step_done"
        if seen == at:
            seen += 1
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("orchestrator.engine.steps.crash_point", reached)
        with pytest.raises(Killed):
            serve_one()
    lose(made)
    serve()
    found = now(made)

    assert found.status == "complete", found.error
    assert content(found, "out") == b"x"


def test_a_workflow_is_shown_after_its_worker_has_died(begin, api):
    made = begin({"command": "true"}, name="execute-task")
    held = claim()
    rows((EXPIRE + b" RETURNING 1").decode(), [OWNER])

    assert held is not None
    assert api.get(f"/api/v1/workflows/{made.pk}/").status_code == 200


def test_the_sandbox_of_a_terminated_task_is_removed(begin, monkeypatch):
    made = begin({"command": "true"}, name="execute-task")
    with monkeypatch.context() as patch:
        die_at(patch, "command_ordered")
        with pytest.raises(Killed):
            serve_one()
    assert sandbox.unneeded() == []
    terminate(now(made))
    left = sandbox.unneeded()
    assert [one.workflow_id for one in left] == [made.pk]
    sandbox.close_all(left)

    assert sandbox.read(made.pk) is None
    assert sandbox.unneeded() == []


def test_a_replaced_sandbox_is_an_error(begin, monkeypatch):
    made = begin({"command": "echo ran > ran"}, name="execute-task")
    with monkeypatch.context() as patch:
        seen = []

        def reached(point):
            seen.append(point)
            if seen.count("step_done") == 2:
                raise Killed

        patch.setattr("orchestrator.engine.steps.crash_point", reached)
        with pytest.raises(Killed):
            serve_one()
    here = sandbox.read(made.pk)
    assert here is not None
    lose(made)
    held = claim()
    sandbox.close(here)
    rows(
        "UPDATE workflow_steps SET status = 'complete', result = %s "
        "WHERE workflow_id = %s AND name = 'create sandbox' RETURNING 1",
        [f'"{here.token}"', made.pk],
    )
    serve_one(held)

    assert (now(made).status, now(made).error["code"]) == ("errored", "sandbox_gone")


def test_a_restarted_task_begins_in_an_empty_workspace(task):
    made = task(command="ls; echo 1 > left.txt", keep_seconds=600)
    restart(made)
    serve()

    assert now(made).status == "complete"
    assert now(made).output["output"] == ""


def test_artifacts_are_deleted_with_their_workflow(task):
    made = task(command="echo 1 > left.txt")
    store = sandbox.task_folder(made.workspace_id, made.pk)
    assert store.exists()
    assert sandbox.forget_erased() == 0
    made.delete()

    assert sandbox.forget_erased() == 1
    assert not store.exists()
