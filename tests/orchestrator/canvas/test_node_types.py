"""Tests of the nodes that run code, send requests, repeat, and run other workflows."""

from __future__ import annotations

import pytest

from core.exceptions import Invalid, InvalidFields
from orchestrator.canvas.python_code import MARK, command_of, result_of
from orchestrator.engine.approvals import answer_approval
from orchestrator.engine.recovery import recover
from orchestrator.engine.waits import settle_child
from orchestrator.exceptions import NonRetryableError
from orchestrator.models import Workflow
from sessions_app.harness import crash_points
from sessions_app.models import Session, SessionEvent, ToolExecution
from tests.orchestrator.canvas.test_runs import answer_agents, draw, new_agent, node
from tests.orchestrator.conftest import claim, now, serve, serve_one
from tests.orchestrator.engine.test_branches import Killed, dies_at
from tests.orchestrator.engine.test_recovery import lose
from tools_app.policy.storage import agent_target, save_policy

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(workspace, owner):
    return new_agent(workspace, owner, "Walker")


def finish(made):
    """Serve the run, the agents that it asks and the workflows that it starts."""
    for _ in range(30):
        served = serve()
        answer_agents()
        for child in Workflow.objects.filter(parent__isnull=False, status__in=Workflow.OVER):
            settle_child(child.pk)
        if not served and now(made).is_over:
            break
    return now(made)


def start(begin, agent, nodes, lines, given=None):
    draw(agent, nodes, lines)
    return begin({"agent": str(agent.pk), "input": given}, name="canvas", agent_id=agent.pk)


def loop(items, type, on_error=None, **config):
    body = {"type": type, "config": config}
    return node(
        "each", "loop", items=items, body=body, **({"on_error": on_error} if on_error else {})
    )


SHAPE = ["start>each", "each>end"]


def test_a_loop_asks_once_for_each_item_in_conversations_of_their_own(agent, begin):
    nodes = [
        node("start", "trigger"),
        loop("{{input.names}}", "agent", prompt="say {{index}} {{item.first}}."),
        node("end", "output"),
    ]
    given = {"names": [{"first": "Ada"}, {"first": "Bo"}]}
    done = finish(start(begin, agent, nodes, SHAPE, given))

    assert done.output["output"] == ["0 Ada.", "1 Bo."]
    assert Session.objects.filter(metadata__workflow_id=str(done.pk)).count() == 2


@pytest.mark.parametrize(("on_error", "status"), [(None, "errored"), ("continue", "complete")])
def test_a_loop_notes_what_failed_only_if_it_is_told_to_go_on(agent, begin, on_error, status):
    save_policy(agent_target(agent.pk), {"denied_tools": ["current_time"]})
    nodes = [
        node("start", "trigger"),
        loop("{{input}}", "tool", on_error, tool="current_time"),
        node("end", "output"),
    ]
    done = finish(start(begin, agent, nodes, SHAPE, [1, 2]))

    assert done.status == status
    results = done.output["output"] if done.output else [done.error and {"error": "Not allowed"}]
    assert all(one["error"].startswith("Not allowed") for one in results)


def test_a_list_may_be_text_and_must_be_a_list(agent, begin):
    nodes = [
        node("start", "trigger"),
        loop("{{input}}", "agent", prompt="say {{item}}."),
        node("end", "output"),
    ]
    assert finish(start(begin, agent, nodes, SHAPE, "a\nb")).output["output"] == ["a.", "b."]
    made = begin({"agent": str(agent.pk), "input": 3}, name="canvas")
    assert "not a list" in finish(made).error["message"]


def test_the_canvas_of_another_agent_runs_within_this_one(agent, workspace, owner, begin):
    other = new_agent(workspace, owner, "Other")
    inner = [node("start", "trigger"), node("end", "output", value="got {{input.x}}")]
    draw(other, inner, ["start>end"])
    nodes = [
        node("start", "trigger"),
        node("sub", "workflow", workflow="canvas", agent="Other", params={"x": "{{input.y}}"}),
        node("end", "output"),
    ]
    done = finish(start(begin, agent, nodes, ["start>sub", "sub>end"], {"y": 7}))

    assert done.output["output"] == "got 7"
    assert Workflow.objects.get(parent=done).agent_id == agent.pk


def test_canvases_that_run_each_other_end(agent, begin):
    nodes = [
        node("start", "trigger"),
        node("again", "workflow", workflow="canvas", agent="Walker"),
        node("end", "output"),
    ]
    done = finish(start(begin, agent, nodes, ["start>again", "again>end"]))

    assert done.status == "errored"
    assert "levels deep" in done.error["message"]
    assert Workflow.objects.count() == 6


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"workflow": "execute_task"}, "unfit_workflow"),
        ({"workflow": "nothing"}, "unfit_workflow"),
        ({"workflow": "canvas", "agent": "Nobody"}, "unknown_agent"),
    ],
)
def test_a_workflow_that_a_canvas_cannot_run_is_refused_before_it_starts(
    agent, begin, config, code
):
    nodes = [node("start", "trigger"), node("sub", "workflow", **config)]
    with pytest.raises(InvalidFields) as caught:
        start(begin, agent, nodes, ["start>sub"])
    assert [(one["field"], one["code"]) for one in caught.value.errors] == [("sub", code)]


def test_a_request_is_a_call_under_the_policy_whose_secrets_stay_names(agent, begin):
    nodes = [
        node("start", "trigger"),
        node("send", "http", url="https://example.com/{{input.path}}", method="POST",
             headers={"Authorization": "Bearer {{vault:TOKEN}}"}, body={"n": "{{input.n}}"}),
    ]  # fmt: skip
    made = start(begin, agent, nodes, ["start>send"], {"path": "a", "n": 3})
    serve()

    assert now(made).status == "waiting_approval"
    asked = now(made).steps.get(name="send/approval")
    assert asked.detail["details"]["input"] == {
        "url": "https://example.com/a",
        "method": "POST",
        "headers": {"Authorization": "Bearer {{vault:TOKEN}}"},
        "body": {"n": 3},
    }


def test_nothing_that_is_filled_in_can_name_a_secret(agent, begin):
    nodes = [node("start", "trigger"), node("send", "http", url="https://example.com/{{input}}")]
    done = finish(start(begin, agent, nodes, ["start>send"], "{{vault:TOKEN}}"))

    assert done.status == "errored"
    assert "reserved" in done.error["message"]
    assert not ToolExecution.objects.exists()


def test_a_request_to_a_private_address_is_refused(agent, begin, principal):
    nodes = [node("start", "trigger"), node("send", "http", url="http://127.0.0.1:9/x")]
    made = start(begin, agent, nodes, ["start>send"])
    serve()
    answer_approval(now(made), principal, allow=True)
    done = finish(made)

    assert done.status == "errored"
    assert ToolExecution.objects.get().state == "error"


def test_code_is_readable_in_its_command_and_its_result_is_read_back():
    command = command_of("def main(data):\n    return data", {"text": 'it\'s\n"x"'})

    assert "def main(data):\n    return data\n" in command
    assert result_of(f'noise\n{MARK}{{"a": 1}}\n[exit code 0]') == {"a": 1}
    with pytest.raises(NonRetryableError, match="boom"):
        result_of("boom\n[exit code 1]")
    with pytest.raises(Invalid):
        command_of("END_OF_CANVAS_CODE", None)


def test_the_input_must_fit_the_start_form(agent, begin):
    schema = {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "integer", "title": "Count"}},
    }
    nodes = [node("start", "trigger", schema=schema), node("end", "output", value="{{input.n}}")]
    draw(agent, nodes, ["start>end"])
    for given, message in (
        ({}, "Count is required."),
        ({"n": "x"}, "Count must be a whole number."),
    ):
        with pytest.raises(InvalidFields, match=message):
            begin({"agent": str(agent.pk), "input": given}, name="canvas")
    made = begin({"agent": str(agent.pk), "input": {"n": 3}}, name="canvas")
    assert finish(made).output["output"] == 3


def test_comments_do_nothing(agent, begin):
    nodes = [
        node("start", "trigger"),
        node("note", "note", text="{{nothing}}"),
        node("end", "output", value="x"),
    ]
    done = finish(start(begin, agent, nodes, ["start>end"]))
    assert done.output["output"] == "x"
    assert not done.steps.filter(name__startswith="note").exists()


@pytest.mark.parametrize("times", [1, 3, 5])
def test_a_loop_goes_on_after_a_crash_and_asks_once_for_each_item(agent, begin, monkeypatch, times):
    nodes = [
        node("start", "trigger"),
        loop("{{input}}", "tool", tool="current_time"),
        node("ask", "agent", prompt="say {{nodes.start.output.0}}."),
        node("end", "output", value="{{nodes.ask.output}}"),
    ]
    made = start(begin, agent, nodes, ["start>each", "each>ask", "ask>end"], ["a", "b"])
    held = claim()
    with monkeypatch.context() as watching:
        watching.setattr(crash_points, "on_reach", dies_at("step_done", times=times))
        with pytest.raises(Killed):
            serve_one(held)
    lose(held)
    recover()
    done = finish(made)

    assert (done.status, done.output["output"]) == ("complete", "a.")
    assert ToolExecution.objects.filter(workflow_id=made.pk, state="completed").count() == 2
    assert SessionEvent.objects.filter(type="user.message").count() == 1


def test_code_that_was_running_when_its_worker_died_is_not_run_again(
    agent, begin, monkeypatch, principal
):
    nodes = [node("start", "trigger"), node("code", "code", code="def main(data): return 1")]
    made = start(begin, agent, nodes, ["start>code"])
    serve()
    answer_approval(now(made), principal, allow=True)
    held = claim()
    with monkeypatch.context() as watching:
        watching.setattr(crash_points, "on_reach", dies_at("inside_tool"))
        with pytest.raises(Killed):
            serve_one(held)
    lose(held)
    recover()
    done = finish(made)

    assert done.status == "errored"
    assert [one.state for one in ToolExecution.objects.filter(workflow_id=made.pk)] == ["unknown"]
