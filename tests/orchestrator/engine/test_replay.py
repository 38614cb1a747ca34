"""Tests that changed code is detected at replay and that versions coexist."""

from __future__ import annotations

import pytest

from orchestrator.engine.definition import registry
from orchestrator.engine.recovery import fail_orphans, fire_due
from tests.orchestrator.conftest import now, pass_time, serve, serve_one

pytestmark = pytest.mark.django_db


def wake_and_serve(made) -> None:
    pass_time(made, 100)
    fire_due()
    serve()


def test_a_replayed_step_with_another_name_fails_the_workflow(define, begin):
    define(lambda self, event, step: [step.do("a", lambda: 1), step.sleep("s", 9)])
    made = begin()
    serve()
    define(lambda self, event, step: [step.do("b", lambda: 1), step.sleep("s", 9)])
    wake_and_serve(made)

    assert now(made).status == "errored"
    assert now(made).error["code"] == "non_determinism"
    assert "'a' (do)" in now(made).error["message"]
    assert "'b' (do)" in now(made).error["message"]


def test_a_replayed_step_of_another_kind_fails_the_workflow(define, begin):
    define(lambda self, event, step: [step.do("a", lambda: 1), step.sleep("s", 9)])
    made = begin()
    serve()
    define(lambda self, event, step: [step.sleep("a", 1), step.sleep("s", 9)])
    wake_and_serve(made)

    assert now(made).error["code"] == "non_determinism"


def test_code_that_ends_before_a_recorded_step_is_noticed(define, begin):
    define(lambda self, event, step: [step.do("a", lambda: 1), step.sleep("s", 9)])
    made = begin()
    serve()
    define(lambda self, event, step: step.do("a", lambda: 1))
    wake_and_serve(made)

    assert now(made).error["code"] == "non_determinism"
    assert "'s'" in now(made).error["message"]


def test_a_running_instance_finishes_on_the_version_that_it_began_with(define, begin):
    define(lambda self, event, step: [step.sleep("s", 9), "old"][1], version=1)
    old = begin()
    serve()
    define(lambda self, event, step: "new", version=2)
    new = begin()
    wake_and_serve(old)

    assert now(old).output == "old"
    assert (now(new).version, now(new).output) == (2, "new")


def test_an_instance_whose_version_is_gone_fails_with_that_reason(define, begin):
    define(lambda self, event, step: step.sleep("s", 9), version=1)
    made = begin()
    serve()
    del registry["test", 1]
    define(lambda self, event, step: "new", version=2)
    pass_time(made, 10)
    fire_due()
    assert not serve_one(), "no worker takes what it does not know"
    assert fail_orphans() == [], "workers with the old code may still be there"
    assert fail_orphans(grace=0) == [made.pk]

    assert now(made).status == "errored"
    assert now(made).error["code"] == "version_gone"
    assert "version 1" in now(made).error["message"]


@pytest.mark.parametrize("name", ["test", "gone"])
def test_an_instance_of_newer_code_waits_longer_for_a_machine_that_has_it(define, begin, name):
    define(lambda self, event, step: step.sleep("s", 9), name=name, version=2)
    made = begin(name=name)
    serve()
    del registry[name, 2]
    define(lambda self, event, step: "old", version=1)
    pass_time(made, 10)
    fire_due()

    assert fail_orphans(grace=0) == [], "this machine may have the older code"
    assert fail_orphans(newer_grace=0) == [made.pk]


def test_progress_is_not_reported_again_at_a_replay(define, begin):
    def run(self, event, step):
        self.report_progress("begins", percent=10)
        step.sleep("s", 9)
        self.report_progress("ends", percent=90)
        return 1

    define(run)
    made = begin()
    serve()
    wake_and_serve(made)

    told = [e.payload["message"] for e in made.events.filter(type="progress").order_by("seq")]
    assert told == ["begins", "ends"]
    assert now(made).progress["percent"] == 90
