"""Tests of the page of one workflow: its errors, its result and the names of its nodes."""

from __future__ import annotations

import re

import pytest

from orchestrator.models import Workflow
from tests.orchestrator.canvas.test_runs import draw, new_agent, node
from tests.orchestrator.conftest import serve

pytestmark = pytest.mark.django_db


def page_of(browser_client, made) -> str:
    return browser_client.get(f"/workflows/{made.pk}/").content.decode()


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"exit_code": 3, "ended_by": "itself"}, "Exit code 3"),
        ({"exit_code": None, "ended_by": "time"}, "Took too long"),
        ({"exit_code": 137, "ended_by": "memory"}, "Limit on memory"),
    ],
)
def test_a_failed_command_is_marked_although_its_step_is_complete(
    browser_client, define, begin, ended, said
):
    define(lambda self, event, step: step.do("run", lambda: {**ended, "output": ""}))
    made = begin()
    serve()

    page = page_of(browser_client, made)
    assert said in page
    assert 'class="flow-step is-failed"' in page


def test_a_successful_command_is_not_marked_as_failed(browser_client, define, begin):
    define(lambda self, event, step: step.do("run", lambda: {"exit_code": 0, "ended_by": "itself"}))
    made = begin()
    serve()
    assert "is-failed" not in page_of(browser_client, made)


def test_the_first_line_of_an_error_is_shown_separately_from_the_rest(
    browser_client, define, begin
):
    def fail():
        raise ValueError("It broke.\nat line 7")

    define(lambda self, event, step: step.do("run", fail, retries=0))
    made = begin()
    serve()
    page = page_of(browser_client, made)
    assert '<p>It broke.</p><pre tabindex="0">at line 7</pre>' in page
    shown = browser_client.get("/workflows/").content.decode()
    assert "It broke." in shown
    assert "at line 7" not in shown


def test_the_answer_is_shown_separately_and_the_whole_result_as_json(browser_client, define, begin):
    define(lambda self, event, step: {"output": "forty-two", "cost": "0"})
    made = begin()
    serve()
    page = page_of(browser_client, made)
    assert re.search(r"aria-labelledby=.out-title.>forty-two\s*</div>", page)
    assert "Result as JSON" in page


def test_the_list_shows_what_a_run_is_about(browser_client, define, begin, workspace, owner):
    define(lambda self, event, step: None, about=("topic",))
    begin({"topic": "Trains <b>"})
    agent = new_agent(workspace, owner, "Walker")
    draw(agent, [node("start", "trigger"), node("end", "output")], ["start>end"])
    begin({"agent": str(agent.pk)}, name="canvas", agent_id=agent.pk)

    shown = browser_client.get("/workflows/").content.decode()
    assert "Trains &lt;b&gt;" in shown
    assert "Canvas of Walker" in shown


def test_the_steps_of_a_canvas_have_the_names_of_its_nodes(browser_client, begin, workspace, owner):
    agent = new_agent(workspace, owner, "Walker")
    drawn = [node("start", "trigger"), {**node("n7", "output", value="x"), "name": "The answer"}]
    draw(agent, drawn, ["start>n7"])
    made = begin({"agent": str(agent.pk)}, name="canvas", agent_id=agent.pk)
    serve()
    assert "<strong>The answer</strong>" in page_of(browser_client, made)


def test_a_task_can_be_started_from_the_unchanged_form(browser_client, begin):
    page = browser_client.get("/workflows/new/?name=execute-task").content.decode()
    assert ">\n[]</textarea>" in page
    form = {"name": "execute-task", "once": "1", "command": "true", "files": "[]", "timeout": "60"}
    assert browser_client.post("/workflows/new/", form).status_code == 302


def test_a_workflow_shows_the_id_of_its_address(browser_client, define, begin):
    define(lambda self, event, step: "done")
    made = begin()
    serve()

    assert f"<dt>ID</dt><dd><code>{made.pk}</code></dd>" in page_of(browser_client, made)


def test_progress_that_only_repeats_the_status_is_not_shown(browser_client, define, begin):
    define(lambda self, event, step: "done")
    made = begin()
    Workflow.objects.filter(pk=made.pk).update(progress={"message": "Half way"})
    assert "flow-message" in page_of(browser_client, made)
    Workflow.objects.filter(pk=made.pk).update(progress={"message": "Queued"})
    assert "flow-message" not in page_of(browser_client, made)
