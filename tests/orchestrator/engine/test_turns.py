"""Tests that a step which waits for an agent gets the end of its own turn."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from agents.providers.base import TextDelta, Usage
from orchestrator.engine import recovery
from orchestrator.engine.lifecycle import terminate
from orchestrator.engine.recovery import settle_lost
from orchestrator.models import Workflow
from sessions_app.lanes import run_queue
from sessions_app.models import Approval, Session
from tests.orchestrator.conftest import now, serve, states, steps
from tests.orchestrator.engine.test_branches import fork
from tests.sessions_app.conftest import script
from tests.sessions_app.conftest import serve as serve_lane
from tests.sessions_app.waiting_calls import allow, command, pending

pytestmark = pytest.mark.django_db
__all__ = ["script"]


def answer(text):
    return [TextDelta(text=text), Usage(input_tokens=1, output_tokens=1)]


@pytest.fixture
def agent(workspace, owner):
    fields = {"name": "Writer", "provider": "demo", "model": "demo"}
    return create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)


@pytest.fixture
def made(agent, define, begin, script):
    """Start a workflow whose agent waits for an approval."""
    script([command("echo hi")], answer("done"))
    define(lambda self, event, step: step.run_session("ask", agent="Writer", message="Do it."))
    made = begin()
    serve()
    serve_lane(Session.objects.get().pk)
    return made


def test_a_turn_that_waits_for_a_person_is_not_over(made):
    assert settle_lost() == []
    assert now(made).status == "waiting"


def test_lost_wake_ups_are_found_among_many_waiting_turns(made, define, begin, monkeypatch):
    """This holds for any number of them and any batch size."""
    monkeypatch.setattr(recovery, "BATCH", 1)
    define(lambda self, event, step: 1, name="child")
    define(lambda self, event, step: step.spawn("child", "child"), name="parent")
    parent = begin(name="parent")
    serve()

    assert settle_lost() == [parent.pk]


def test_a_child_whose_result_cannot_be_read_holds_up_no_other(define, begin):
    define(lambda self, event, step: 1, name="child")
    define(lambda self, event, step: step.spawn("child", "child"), name="parent")
    parents = [begin(name="parent") for _ in range(2)]
    serve()
    broken, _ = Workflow.objects.filter(name="child").order_by("pk")
    Workflow.objects.filter(pk=broken.pk).update(result="{")

    (settled,) = settle_lost()

    assert {settled, broken.parent_id} == {one.pk for one in parents}


def test_the_end_of_a_resumed_turn_is_the_result_of_the_step(made, principal):
    allow(pending(), principal)
    serve_lane(Session.objects.get().pk)
    assert settle_lost() == [made.pk]
    serve()

    assert now(made).output["text"] == "done"


def test_a_turn_that_is_stopped_while_it_waits_for_a_person_ends_the_step(made):
    """The stop ends no run, as none is running."""
    run_queue.stop(Session.objects.get().pk, note="no more of this")
    assert settle_lost() == [made.pk]
    serve()

    assert now(made).status == "errored"
    assert now(made).error["code"] == "run_cancelled"


def test_terminating_cancels_the_approvals_of_the_agent(made):
    terminate(made)

    assert Approval.objects.get().status == "cancelled"
    assert Session.objects.get().status == "idle"


def test_two_waiting_turns_in_one_session_are_told_apart(agent, define, begin, script, principal):
    script(
        [command("echo 1", "c1")], answer("first"), [command("echo 2", "c2")], answer("second")
    )  # fmt: skip
    fork(define, {
        name: lambda step, name=name: step.run_session(name, agent="Writer", message=name)
        for name in ("a", "b")
    })  # fmt: skip
    made = begin()
    serve()
    session = Session.objects.get()
    serve_lane(session.pk)
    allow(pending(), principal)
    serve_lane(session.pk)  # Ends the first turn; the second then waits for a person.
    settle_lost()
    serve()
    assert states(made) == [("a", "complete", 1), ("b", "waiting", 1)]
    allow(pending(), principal)
    serve_lane(session.pk)
    settle_lost()
    serve()

    assert [one.output["text"] for one in steps(made)] == ["first", "second"]
